// Package eviction decides. It holds thresholds against what was observed and
// says what follows: wait, reclaim node-level waste, or evict one pod, with
// the reason. It is pure: time and observations come in, decisions come out as
// values; it reads no clock, no file and no API.
//
//	           met               grace passed              still met after reclaim
//	unmet ───────────▶ waiting ───────────────▶ met ───────────────────────────────▶ evict one pod
//	  ▲                   │                      │
//	  └───────────────────┴──────────────────────┘
//	    available ≥ threshold      available ≥ threshold + minimum reclaim
//
// Duties of the caller, in this order, once per look:
//
//  1. [Machine.Look] with a [signal.Snapshot]; it moves timers, conditions and
//     hysteresis and returns a [Verdict].
//  2. If Verdict.CheckLimits, the pods above a local-storage limit are the
//     [Violations]; evicting one of them ends the look.
//  3. If Verdict.Target is set: run Verdict.Reclaim, observe again, and go on
//     only while [Machine.StillMet] holds.
//  4. Rank the pods (package ranking), observe once more, and evict the first
//     that is not protected, with what [Policy.Evict] says. A kill that fails
//     is no eviction: the next pod is tried.
//
// Invariants:
//
//  1. An unknown signal changes nothing: its timers, its hysteresis and its
//     condition stay as they were, for at most the transition period.
//  2. An extra look changes nothing unless hard memory is crossed and doomed.
//  3. A threshold is acted for only with a sample newer than the one before.
//  4. A condition that is True stays so for the transition period at least.
//  5. What [Machine.Save] returns is all that has to survive a restart.
//  6. A look with nothing to do allocates nothing.
package eviction
