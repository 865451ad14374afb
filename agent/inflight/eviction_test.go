package inflight

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Exhaustion ends the wait for memory, of the node or of the pods: memory freed in one does not
// help if the other one runs out.
func TestPressed_EitherMemory(t *testing.T) {
	const horizon = 500 * time.Millisecond
	at := time.Unix(9, 0)
	calm := signals.Observed(400*mib, gib, at)
	falling := signals.Rate{By: 100 * mib, Over: 100 * time.Millisecond}
	for about, tc := range map[string]struct {
		of    signals.Signal
		see   signals.Signal
		left  signals.Amount
		fell  signals.Rate
		ends  bool
		since time.Duration
	}{
		"nothing falls":            {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 100 * mib, signals.Rate{}, false, time.Second},
		"its own falls":            {signals.MemoryAvailable, signals.MemoryAvailable, 100 * mib, falling, true, time.Second},
		"the pods' falls":          {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 100 * mib, falling, true, time.Second},
		"the node's falls":         {signals.AllocatableMemoryAvailable, signals.MemoryAvailable, 100 * mib, falling, true, time.Second},
		"the pods' is used up":     {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 0, signals.Rate{}, true, time.Second},
		"a kill may still help":    {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 0, falling, false, eviction.KillTime - 1},
		"memory is of no disk":     {signals.NodefsAvailable, signals.MemoryAvailable, 0, falling, false, time.Second},
		"a disk is of no memory's": {signals.MemoryAvailable, signals.NodefsAvailable, 0, falling, false, time.Second},
	} {
		s := signals.Snapshot{At: at}
		for _, sig := range []signals.Signal{signals.MemoryAvailable, signals.AllocatableMemoryAvailable, signals.NodefsAvailable} {
			s.Node[sig] = calm
		}
		s.Node[tc.see], s.Rates[tc.see] = signals.Observed(tc.left, gib, at), tc.fell
		e := Eviction{Signal: tc.of, gone: at.Add(-tc.since)}
		if got := e.pressed(&s, horizon); got != tc.ends {
			t.Errorf("%s: %v", about, got)
		}
	}
}

func TestUnmounting_OnlyMemoryOutlivesProcesses(t *testing.T) {
	at := time.Unix(9, 0)
	for about, tc := range map[string]struct {
		e    Eviction
		want bool
	}{
		"memory":                     {Eviction{Signal: signals.MemoryAvailable, expected: 1}, true},
		"memory of pods":             {Eviction{Signal: signals.AllocatableMemoryAvailable, expected: 1}, true},
		"memory, for long":           {Eviction{Signal: signals.MemoryAvailable, expected: 1, gone: at.Add(-UnmountTimeout)}, false},
		"memory, with a longer wait": {Eviction{Signal: signals.MemoryAvailable, expected: 1, gone: at.Add(-UnmountTimeout), unmount: FreeTimeout}, true},
		"memory that was not seen":   {Eviction{Signal: signals.MemoryAvailable}, false},
		"PIDs":                       {Eviction{Signal: signals.PIDAvailable, expected: 1}, false},
		"a disk":                     {Eviction{Signal: signals.NodefsAvailable, expected: 1}, false},
		"a limit, of no signal":      {Eviction{Limit: true, expected: 1}, false},
	} {
		if tc.e.gone.IsZero() {
			tc.e.gone = at.Add(time.Millisecond - UnmountTimeout)
		}
		if got := tc.e.Unmounting(at); got != tc.want {
			t.Errorf("%s: %v", about, got)
		}
	}
}

// Processes that remain after a kill have exited when the background kill reports it.
func TestUpdate_ExitsWhenTheRestIsGone(t *testing.T) {
	rest, begun := make(chan struct{}), time.Now()
	e := New(&eviction.Eviction{Hard: true}, begun)
	e.Exits(begun, true, rest)
	if e.Update(begun.Add(time.Second)); e.State() != Exiting || e.gone != begun {
		t.Errorf("%+v: processes are left", e)
	}
	close(rest)
	if e.Update(begun.Add(2 * time.Second)); e.State() != Freeing || e.gone != begun.Add(2*time.Second) {
		t.Errorf("%+v: they are gone", e)
	}
}

// Every pair of a state and an event: a pair not in the table changes nothing.
func TestNext_Table(t *testing.T) {
	want := map[[2]string]string{
		{"decided", "skip"}: "dry-run", {"decided", "terminate"}: "terminating", {"decided", "remain"}: "exiting", {"decided", "exit"}: "freeing",
		{"terminating", "escalate"}: "escalated", {"terminating", "remain"}: "exiting", {"terminating", "exit"}: "freeing",
		{"escalated", "finish"}: "finishing", {"escalated", "remain"}: "exiting", {"escalated", "exit"}: "freeing",
		{"finishing", "remain"}: "exiting", {"finishing", "exit"}: "freeing",
		{"exiting", "exit"}: "freeing",
	}
	for s := range State(len(stateNames)) {
		for ev := range Event(len(eventNames)) {
			to, ok := s.Next(ev)
			text, listed := want[[2]string{s.String(), ev.String()}]
			if ok != listed || ok && to.String() != text {
				t.Errorf("%s after %s: %s, %v; want %q", s, ev, to, ok, text)
			}
		}
	}
}

// A soft eviction from its request to the freed memory, with an escalation.
func TestEviction_Escalated(t *testing.T) {
	begun := time.Unix(9, 0)
	e := New(&eviction.Eviction{Pod: &signals.Pod{Name: "p"}}, begun)
	e.Terminate(time.Minute, false)
	if !e.State().Soft() || !e.Deadline().IsZero() || e.Hangs(begun.Add(time.Hour)) {
		t.Fatalf("%+v: it has as long as the API server says", e)
	}
	at := begun.Add(time.Second)
	if !e.Escalate(at) || e.Escalate(at) || e.Deadline() != at.Add(EscalationTimeout) {
		t.Fatalf("%+v: it is escalated once", e)
	}
	if e.Hangs(at) || !e.Hangs(at.Add(eviction.KillTime)) || !e.ToFinish() {
		t.Errorf("%+v: it hangs once a kill would be over", e)
	}
	at = at.Add(eviction.KillTime)
	if e.Finished(at, false); e.ToFinish() || !e.Finishes(at) || e.Finishes(at.Add(eviction.KillTime)) {
		t.Errorf("%+v: a kill is waited for", e)
	}
	if e.EndSoft(at, true); e.State() != Exiting {
		t.Errorf("%+v: processes remain", e)
	}
}

// One place for each condition, and one for soft evictions.
func TestSet_Places(t *testing.T) {
	var set Set
	for cause, want := range map[string]int{
		"memory.available": int(signals.MemoryPressure), "nodefs.inodesFree": int(signals.DiskPressure), "pid.available": int(signals.PIDPressure), eviction.PodLimit: int(signals.DiskPressure),
	} {
		set = Set{}
		e := New(&eviction.Eviction{Hard: true, Cause: cause}, time.Time{})
		if set.Add(e); set[want] != e {
			t.Errorf("%s: %+v", cause, set)
		}
		if set.Remove(e); set != (Set{}) {
			t.Errorf("%s: still there", cause)
		}
	}
	e := New(&eviction.Eviction{Cause: "memory.available"}, time.Time{})
	e.Exits(time.Time{}, true, nil)
	if set.Add(e); set[Soft] != e || !set.Exiting() {
		t.Errorf("%+v", set)
	}
}
