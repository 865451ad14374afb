package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// A stall is no threshold: pods that thrash at their own limit wait on a node with memory to
// spare. The agent therefore only reports them, which explains a check without a result.

// stallPace is the minimum time between two searches for stalled pods. A search reads a few files
// of every pod.
const stallPace = 10 * time.Second

// stallsRepeat is the minimum time between equal reports.
const stallsRepeat = 10 * time.Minute

// stallWakes are the wakeups that a stalled pod explains.
const stallWakes = signals.ByStall | signals.ByLimit | signals.ByOOM

// stallReports stores the last report of stalls.
type stallReports struct {
	port     Stalls
	asked    time.Time
	reported time.Time
	names    string // of the pods
	own      bool   // the pods' own limits explained it
}

// reportStalls reports the pods that wait for memory, after a check that a stall has woken and
// that found nothing to act for. It does nothing while memory is short and falls, since a search
// takes as long as several checks.
func (a *Agent) reportStalls(o *Outcome) {
	s := o.Snapshot
	if a.stalls.port == nil || !s.Woken.Any(stallWakes) || o.Verdict.Target != nil || s.At.Sub(a.stalls.asked) < stallPace {
		return
	}
	if a.interval(s) < eviction.RelaxedInterval {
		return
	}
	a.stalls.asked = s.At
	found := a.stalls.port.Stalls()
	names := strings.Join(slices.Sorted(slices.Values(stallNames(found))), " ")
	if len(found) == 0 {
		return
	}
	// A stall without explanation in the last report may have one now: its pod may have met its
	// own limit later.
	own := found[0].Own()
	if names == a.stalls.names && (a.stalls.own || !own) && s.At.Sub(a.stalls.reported) < stallsRepeat {
		return
	}
	a.stalls.names, a.stalls.own, a.stalls.reported = names, own, s.At
	d := a.decision(o, Stalled)
	d.Reason = a.whyStalled(found, s)
	for i := range found[:min(len(found), maxPlaces)] {
		d.Stalls = append(d.Stalls, PodReason{Pod: found[i].Name(), Reason: reasonOf(&found[i])})
	}
	a.reporter.Report(d)
}

func stallNames(found []signals.Stall) (names []string) {
	for i := range found {
		names = append(names, found[i].Name())
	}
	return names
}

// whyStalled returns the pod that stalls, and the memory signals above their thresholds.
func (a *Agent) whyStalled(found []signals.Stall, s *signals.Snapshot) string {
	whose := "not explained by limits of a pod's own"
	if found[0].Own() { // the longest wait
		whose = found[0].Name() + " waits at a limit of its own, which is no pressure of the node"
	}
	text := "woken by " + strings.Join(s.Woken.Names(), ", ") + ": " + whose
	for _, l := range a.memoryLines(s) {
		if o := &s.Node[l.Signal]; o.Available >= l.At {
			text += fmt.Sprintf("; %s is %s, above its threshold of %s", l.Signal,
				signals.Format(o.Available, signals.UnitBytes), signals.Format(l.At, signals.UnitBytes))
		}
	}
	return text
}

// reasonOf describes one stall.
func reasonOf(s *signals.Stall) string {
	var parts []string
	if s.Waited.Known {
		parts = append(parts, fmt.Sprintf("waited for memory for %s of %s", s.Waited.Value.Round(time.Millisecond), s.Over.Round(time.Millisecond)))
	}
	for _, c := range []struct {
		n    uint64
		what string
	}{{s.AtMax, "met its own memory limit"}, {s.AtHigh, "met its own memory.high"}, {s.OOMKills, "was OOM-killed at its limit"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d times", c.what, c.n))
		}
	}
	if s.Limit > 0 {
		parts = append(parts, "limit "+signals.Format(signals.Amount(s.Limit), signals.UnitBytes))
	}
	if s.Throttled > 0 {
		parts = append(parts, fmt.Sprintf("throttled by its CPU quota for %s", s.Throttled.Round(time.Millisecond)))
	}
	return strings.Join(parts, ", ")
}

// memoryLines returns the amounts at which the memory thresholds are met. The result is valid
// until the next call.
func (a *Agent) memoryLines(s *signals.Snapshot) []signals.Line {
	a.lines = a.lines[:0]
	thresholds := a.checker.Machine.Policy().Thresholds
	for i := range thresholds {
		t := &thresholds[i]
		if o := &s.Node[t.Signal]; t.Signal.OfMemory() && o.Known {
			a.lines = append(a.lines, signals.Line{Signal: t.Signal, At: t.Value.Of(o.Capacity).Value})
		}
	}
	return a.lines
}
