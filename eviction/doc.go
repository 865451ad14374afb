// Package eviction decides what follows from thresholds and observations: wait, collect garbage
// of the node, or evict one pod, with the reason. It is pure: time and observations are
// arguments, decisions are return values. It reads no clock, no file and no API.
//
//	         crossed            grace passed              still met after garbage collection
//	unmet ───────────▶ in grace ─────────────▶ past grace ─────────────────────────────────▶ evict one pod
//	  ▲                   │                        │
//	  └───────────────────┴────────────────────────┘
//	    available ≥ threshold      available ≥ threshold + minimum reclaim
//
// A threshold is met in grace and past grace. A hard one has no grace period.
//
// Duties of the caller, in this order, once per check:
//
//  1. Call [Machine.Evaluate] with a [signals.Snapshot]. It updates timers, conditions and
//     hysteresis and returns a [Verdict].
//  2. If Verdict.CheckStorageLimits is set, the pods above a local-storage limit are those of
//     [Policy.Violations]. Evicting one of them ends the check.
//  3. If Verdict.Target is set, collect Verdict.Garbage, observe again, and continue only
//     while [Machine.StillMet] holds.
//  4. Rank the pods (package ranking), and choose the first unprotected one that meets the need of
//     [Policy.NeedFor]. Observe once more, and evict it as [Policy.EvictionFor] decides. A failed
//     kill is no eviction: the next pod is tried.
//
// Invariants:
//
//  1. An unknown signal changes nothing: its timers, its hysteresis and its condition are
//     kept, for at most the transition period.
//  2. An early check changes nothing unless a hard memory threshold is crossed and exhaustion is
//     imminent.
//  3. A threshold is acted for only with a sample newer than the one before.
//  4. A condition stays True for at least the transition period.
//  5. The state that has to survive a restart is that returned by [Machine.Save].
//  6. A check with nothing to do allocates nothing.
package eviction
