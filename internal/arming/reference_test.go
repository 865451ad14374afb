package arming_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/arming"
)

// reference derives the state of an agent from the rules in docs/how-to/arm-and-roll-out.md alone.
func reference(w *arming.Inputs) arming.State {
	is := func(text string) bool { return w.All.Setting == text || w.Node.Setting == text }
	unread := false
	for _, text := range []string{w.All.Setting, w.Node.Setting} {
		if text != "" && text != "armed" && text != "disarmed" && text != "cleanup" {
			unread = true
		}
	}
	switch {
	case is("cleanup") || w.Departing:
		return arming.CleaningUp
	case w.File != arming.Absent || w.Signaled || is("disarmed") || unread || w.CleanedUp:
		return arming.Disarmed
	case !w.DryRun:
		return arming.Armed
	case !is("armed") || !w.Findings.Known:
		return arming.Disarmed
	}
	accepted := "," + w.All.Accepted + "," + w.Node.Accepted + ","
	for _, code := range w.Findings.Errors {
		if !strings.Contains(accepted, ","+code+",") {
			return arming.Disarmed
		}
	}
	return arming.Armed
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func random(r *rand.Rand) arming.Inputs {
	source := func() arming.Source {
		return arming.Source{Setting: pick(r, "", "", "armed", "armed", "disarmed", "cleanup", "on"), Accepted: pick(r, "", "a", "b", "a,b")}
	}
	return arming.Inputs{
		Memory: arming.Memory{All: source(), Node: source(),
			Findings: arming.Findings{Known: r.IntN(4) > 0, Errors: pick(r, nil, nil, []string{"a"}, []string{"b", "a"})}},
		File:   pick(r, arming.Absent, arming.Absent, arming.Absent, arming.Present, arming.Hidden),
		DryRun: r.IntN(3) > 0, Signaled: r.IntN(8) == 0, Departing: r.IntN(8) == 0, CleanedUp: r.IntN(8) == 0,
	}
}

func TestInputs_DecideMatchesReference(t *testing.T) {
	const tries = 200_000
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	states := map[arming.State]int{}
	for range tries {
		w := random(r)
		got := w.Decide()
		states[got.State]++
		if want := reference(&w); got.State != want || got.Reason == "" {
			t.Fatalf("seed %d: %+v is %s (%q), want %s", seed, w, got.State, got.Reason, want)
		}
	}
	for s := range arming.State(3) {
		if states[s] < tries/100 {
			t.Errorf("%s only %d times in %d: insufficient coverage", s, states[s], tries)
		}
	}
}

// Adding a setting that disarms always disarms, and only the setting armed makes a disarmed agent
// act.
func TestInputs_OnlyArmedSettingArms(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	stops := []func(*arming.Inputs){
		func(w *arming.Inputs) { w.File = pick(r, arming.Present, arming.Hidden) },
		func(w *arming.Inputs) { w.Signaled = true },
		func(w *arming.Inputs) { w.CleanedUp = true },
		func(w *arming.Inputs) { w.Departing = true },
		func(w *arming.Inputs) { w.All.Setting = pick(r, "disarmed", "cleanup", "?") },
		func(w *arming.Inputs) { w.Node.Setting = pick(r, "disarmed", "cleanup", "?") },
	}
	for range 50_000 {
		w := random(r)
		before := w.Decide().State
		armed := w
		if armed.Node.Setting == "" {
			armed.Node.Setting = "armed"
			if before == arming.Armed && armed.Decide().State != arming.Armed {
				t.Fatalf("seed %d: %+v is disarmed by an additional armed setting", seed, armed)
			}
		}
		stop := pick(r, stops...)
		if stop(&w); w.Decide().State == arming.Armed {
			t.Fatalf("seed %d: %+v is armed despite a stop", seed, w)
		}
	}
}

// Additional accepted findings and fewer findings never reduce the permission.
func TestInputs_AcceptingMoreNeverDisarms(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50_000 {
		w := random(r)
		before := w.Decide().State
		more := w
		more.All.Accepted += ",a"
		more.Findings.Errors = slices.DeleteFunc(slices.Clone(w.Findings.Errors), func(code string) bool { return code == "b" })
		if after := more.Decide().State; before == arming.Armed && after != arming.Armed {
			t.Fatalf("seed %d: %+v is %s, %+v is %s", seed, w, before, more, after)
		}
	}
}
