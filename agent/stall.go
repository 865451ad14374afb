package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// Waiting for memory is no threshold: pods that thrash at a limit of their own
// wait on a node that has memory to spare. Who waits is therefore only told, so
// that nobody has to guess why the agent looked and did nothing.

// stallPace is how often it is found out at most who waits: it reads a few files
// of every pod.
const stallPace = 10 * time.Second

// stallsRepeat is how often the same is told again.
const stallsRepeat = 10 * time.Minute

// stallWakes are the wakes that somebody's waiting explains.
const stallWakes = signal.ByStall | signal.ByLimit | signal.ByOOM

// stalled remembers what was told of stalls.
type stalled struct {
	port  Stalls
	asked time.Time
	told  time.Time
	names string // of whom
	own   bool   // limits of a pod's own explained it
}

// tellStalls tells who waits for memory, after a look that this has woken and
// that found nothing to act for. Memory that is short and falls is looked at
// instead: to find out takes several looks' time.
func (a *Agent) tellStalls(o *Outcome) {
	s := o.Snapshot
	if a.stalled.port == nil || !s.Woken.Any(stallWakes) || o.Verdict.Target != nil || s.At.Sub(a.stalled.asked) < stallPace {
		return
	}
	if a.interval(s) < eviction.CalmInterval {
		return
	}
	a.stalled.asked = s.At
	found := a.stalled.port.Stalls()
	names := strings.Join(slices.Sorted(slices.Values(stallNames(found))), " ")
	if len(found) == 0 {
		return
	}
	// What was not explained when it was told may be now: whoever waits first may meet a limit of its own later.
	own := found[0].Own()
	if names == a.stalled.names && (a.stalled.own || !own) && s.At.Sub(a.stalled.told) < stallsRepeat {
		return
	}
	a.stalled.names, a.stalled.own, a.stalled.told = names, own, s.At
	d := a.decision(o, Stalled)
	d.Why = a.whyStalled(found, s)
	for i := range found[:min(len(found), mostPlaces)] {
		d.Stalls = append(d.Stalls, Place{found[i].Name(), reasonOf(&found[i])})
	}
	a.reporter.Report(d)
}

func stallNames(found []signal.Stall) (names []string) {
	for i := range found {
		names = append(names, found[i].Name())
	}
	return names
}

// whyStalled says whose stall it is, and that thresholds decide.
func (a *Agent) whyStalled(found []signal.Stall, s *signal.Snapshot) string {
	whose := "not explained by limits of a pod's own"
	if found[0].Own() { // who waits longest
		whose = found[0].Name() + " waits at a limit of its own, which is no pressure of the node"
	}
	text := "woken by " + strings.Join(s.Woken.Names(), ", ") + ": " + whose
	for _, l := range a.memoryLines(s) {
		if o := &s.Node[l.Signal]; o.Available >= l.At {
			text += fmt.Sprintf("; %s is %s, above its threshold of %s", l.Signal,
				signal.Format(o.Available, signal.UnitBytes), signal.Format(l.At, signal.UnitBytes))
		}
	}
	return text
}

// reasonOf is what is known of one stall.
func reasonOf(s *signal.Stall) string {
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
		parts = append(parts, "limit "+signal.Format(signal.Amount(s.Limit), signal.UnitBytes))
	}
	if s.Throttled > 0 {
		parts = append(parts, fmt.Sprintf("held back by its CPU quota for %s", s.Throttled.Round(time.Millisecond)))
	}
	return strings.Join(parts, ", ")
}

// memoryLines are the amounts at which the thresholds of memory are crossed.
// They are valid until the next call.
func (a *Agent) memoryLines(s *signal.Snapshot) []signal.Line {
	a.lines = a.lines[:0]
	thresholds := a.machine.Policy().Thresholds
	for i := range thresholds {
		t := &thresholds[i]
		if o := &s.Node[t.Signal]; t.Signal.OfMemory() && o.Known {
			a.lines = append(a.lines, signal.Line{Signal: t.Signal, At: t.Value.Of(o.Capacity).Value})
		}
	}
	return a.lines
}
