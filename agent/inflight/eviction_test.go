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
		"no fall":                      {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 100 * mib, signals.Rate{}, false, time.Second},
		"own signal falls":             {signals.MemoryAvailable, signals.MemoryAvailable, 100 * mib, falling, true, time.Second},
		"allocatable memory falls":     {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 100 * mib, falling, true, time.Second},
		"node memory falls":            {signals.AllocatableMemoryAvailable, signals.MemoryAvailable, 100 * mib, falling, true, time.Second},
		"allocatable memory exhausted": {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 0, signals.Rate{}, true, time.Second},
		"kill still in time":           {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 0, falling, false, eviction.ReactionTime - 1},
		"memory, eviction for a disk":  {signals.NodefsAvailable, signals.MemoryAvailable, 0, falling, false, time.Second},
		"disk, eviction for memory":    {signals.MemoryAvailable, signals.NodefsAvailable, 0, falling, false, time.Second},
	} {
		s := signals.Snapshot{At: at}
		for _, sig := range []signals.Signal{signals.MemoryAvailable, signals.AllocatableMemoryAvailable, signals.NodefsAvailable} {
			s.Node[sig] = calm
		}
		s.Node[tc.see], s.Rates[tc.see] = signals.Observed(tc.left, gib, at), tc.fell
		e := Eviction{Signal: tc.of, exitedAt: at.Add(-tc.since)}
		if got := e.pressed(&s, horizon); got != tc.ends {
			t.Errorf("%s: got %v, want %v", about, got, tc.ends)
		}
	}
}

// Killed processes free their memory when they exit. After a failed kill none of them does.
func TestPressed_ExhaustedWhileProcessesRemain(t *testing.T) {
	at := time.Unix(9, 0)
	s := signals.Snapshot{At: at.Add(time.Second)}
	s.Node[signals.MemoryAvailable] = signals.Observed(0, gib, s.At)
	killed, failed := New(&eviction.Eviction{Hard: true}, at), New(&eviction.Eviction{Hard: true}, at)
	killed.NoteKill(at, true, nil)
	failed.NoteFailedKill(at)
	for e, want := range map[*Eviction]bool{killed: false, failed: true} {
		if e.Signal = signals.MemoryAvailable; e.pressed(&s, 0) != want || e.State() != Exiting {
			t.Errorf("%+v: got %t, want %t", e, !want, want)
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
		"memory after the timeout":   {Eviction{Signal: signals.MemoryAvailable, expected: 1, exitedAt: at.Add(-UnmountTimeout)}, false},
		"memory, with a longer wait": {Eviction{Signal: signals.MemoryAvailable, expected: 1, exitedAt: at.Add(-UnmountTimeout), unmountWait: FreeTimeout}, true},
		"unmeasured memory":          {Eviction{Signal: signals.MemoryAvailable}, false},
		"PIDs":                       {Eviction{Signal: signals.PIDAvailable, expected: 1}, false},
		"disk":                       {Eviction{Signal: signals.NodefsAvailable, expected: 1}, false},
		"storage limit":              {Eviction{AboveStorageLimit: true, expected: 1}, false},
	} {
		if tc.e.exitedAt.IsZero() {
			tc.e.exitedAt = at.Add(time.Millisecond - UnmountTimeout)
		}
		if got := tc.e.Unmounting(at); got != tc.want {
			t.Errorf("%s: got %v, want %v", about, got, tc.want)
		}
	}
}

// Processes that remain after a kill have exited when the background kill reports it.
func TestPollExit_EndsWithRemainingProcesses(t *testing.T) {
	rest, begun := make(chan struct{}), time.Now()
	e := New(&eviction.Eviction{Hard: true}, begun)
	e.NoteKill(begun, true, rest)
	if e.PollExit(begun.Add(time.Second)); e.State() != Exiting || e.exitedAt != begun {
		t.Errorf("%+v, want exiting: processes remain", e)
	}
	close(rest)
	if e.PollExit(begun.Add(2 * time.Second)); e.State() != Freeing || e.exitedAt != begun.Add(2*time.Second) {
		t.Errorf("%+v, want freeing: all processes exited", e)
	}
}

// All pairs of a state and an event. A pair that is not in the table changes nothing.
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
		t.Fatalf("%+v, want no deadline of its own before the escalation", e)
	}
	at := begun.Add(time.Second)
	if !e.Escalate(at) || e.Escalate(at) || e.Deadline() != at.Add(EscalationTimeout) {
		t.Fatalf("%+v, want exactly one escalation", e)
	}
	if e.Hangs(at) || !e.Hangs(at.Add(eviction.ReactionTime)) || !e.FinishDue() {
		t.Errorf("%+v, want hanging after the time of a kill", e)
	}
	at = at.Add(eviction.ReactionTime)
	if e.NoteFinish(at, false); e.FinishDue() || !e.AwaitsFinish(at) || e.AwaitsFinish(at.Add(eviction.ReactionTime)) {
		t.Errorf("%+v, want a wait for the time of a kill", e)
	}
	if e.NoteSoftResult(at, true); e.State() != Exiting {
		t.Errorf("%+v, want exiting: processes remain", e)
	}
}

// There is one place per condition, and one for soft evictions.
func TestSet_Places(t *testing.T) {
	var set Set
	for cause, want := range map[string]int{
		"memory.available": int(signals.MemoryPressure), "nodefs.inodesFree": int(signals.DiskPressure), "pid.available": int(signals.PIDPressure), eviction.PodStorageLimit: int(signals.DiskPressure),
	} {
		set = Set{}
		e := New(&eviction.Eviction{Hard: true, Cause: cause}, time.Time{})
		if set.Add(e); set[want] != e {
			t.Errorf("%s: %+v", cause, set)
		}
		if set.Remove(e); set != (Set{}) {
			t.Errorf("%s: not removed", cause)
		}
	}
	e := New(&eviction.Eviction{Cause: "memory.available"}, time.Time{})
	e.NoteKill(time.Time{}, true, nil)
	if set.Add(e); set[Soft] != e || !set.Exiting() {
		t.Errorf("%+v", set)
	}
}
