package core

import (
	"fmt"
	"slices"
	"testing"
)

// compareTable compares a transition table with the wanted transitions, each as "state event
// state". Every other pair of a state and an event must change nothing.
func compareTable[S, E interface {
	~uint8
	fmt.Stringer
}](t *testing.T, table transitions[S, E], states, events int, want ...string) {
	t.Helper()
	var got []string
	reached := map[S]bool{0: true}
	for from := range S(states) {
		for e := range E(events) {
			to := from
			if !table.move(&to, e) {
				if to != from {
					t.Errorf("%v %v: no transition, but the state became %v", from, e, to)
				}
				continue
			}
			reached[to] = true
			got = append(got, fmt.Sprint(from, " ", e, " ", to))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the table has\n%q\nwant\n%q", got, want)
	}
	if len(reached) != states {
		t.Errorf("%d of %d states can be reached", len(reached), states)
	}
}

func TestHealthTable_Moves(t *testing.T) {
	compareTable(t, healthTable, len(healthNames), len(healthEventNames),
		"healthy missed suspected",
		"suspected confirmed unreachable",
		"suspected received resumed",
		"unreachable received recovering",
		"unreachable reported suspected",
		"recovering missed relapsed",
		"recovering reported resumed",
		"recovering withdrawn resumed",
		"relapsed confirmed unreachable",
		"relapsed received recovering",
		"relapsed reported suspected-again",
		"resumed missed suspected-again",
		"resumed ready healthy",
		"suspected-again confirmed unreachable",
		"suspected-again received resumed",
		"suspected-again ready suspected")
}

func TestQueueTable_Moves(t *testing.T) {
	compareTable(t, queueTable, len(queueNames), len(queueEventNames),
		"not-queued enqueued queued",
		"not-queued untaint-allowed untaint-allowed",
		"queued dequeued not-queued",
		"queued token-granted token-granted",
		"token-granted token-spent not-queued",
		"token-granted pods-evicted pods-evicted",
		"pods-evicted readiness-changed not-queued",
		"pods-evicted zones-disrupted not-queued",
		"untaint-allowed readiness-changed not-queued",
		"untaint-allowed untainted not-queued")
}

// TestHealthState_Facts checks that each state stands for a different combination of three
// facts: a missed grace period, a confirmed loss, and resumed heartbeats. A lost
// node without silence has resumed.
func TestHealthState_Facts(t *testing.T) {
	want := map[healthState][3]bool{
		stateHealthy:        {false, false, false},
		stateSuspected:      {true, false, false},
		stateUnreachable:    {true, true, false},
		stateRecovering:     {false, true, true},
		stateRelapsed:       {true, true, true},
		stateResumed:        {false, false, true},
		stateSuspectedAgain: {true, false, true},
	}
	for s := range healthState(len(healthNames)) {
		if got := [3]bool{s.silent(), s.lost(), s.resumed()}; got != want[s] {
			t.Errorf("%v: silent, lost, resumed: %v, want %v", s, got, want[s])
		}
	}
}

// TestHealthTable_EffectOfEvents checks that each event has one effect on those facts in every
// state.
func TestHealthTable_EffectOfEvents(t *testing.T) {
	effects := map[healthEvent]func(silent, lost, resumed bool) [3]bool{
		heartbeatsMissed:  func(_, lost, resumed bool) [3]bool { return [3]bool{true, lost, resumed} },
		lossConfirmed:     func(silent, _, _ bool) [3]bool { return [3]bool{silent, true, false} },
		heartbeatReceived: func(_, lost, _ bool) [3]bool { return [3]bool{false, lost, true} },
		readyReported:     func(silent, _, resumed bool) [3]bool { return [3]bool{silent, false, resumed} },
		lossWithdrawn:     func(silent, _, resumed bool) [3]bool { return [3]bool{silent, false, resumed} },
		readyAgain:        func(silent, lost, _ bool) [3]bool { return [3]bool{silent, lost, false} },
	}
	for from, moves := range healthTable {
		for e, to := range moves {
			want := effects[e](from.silent(), from.lost(), from.resumed())
			if got := [3]bool{to.silent(), to.lost(), to.resumed()}; got != want {
				t.Errorf("%v %v %v: silent, lost, resumed: %v, want %v", from, e, to, got, want)
			}
		}
	}
}
