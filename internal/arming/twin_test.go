package arming_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/arming"
)

// twin derives the state of an agent from the rules in docs/how-to/arm-and-roll-out.md alone.
func twin(w *arming.Words) arming.State {
	is := func(text string) bool { return w.All.Word == text || w.Node.Word == text }
	unread := false
	for _, text := range []string{w.All.Word, w.Node.Word} {
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

func random(r *rand.Rand) arming.Words {
	voice := func() arming.Voice {
		return arming.Voice{Word: pick(r, "", "", "armed", "armed", "disarmed", "cleanup", "on"), Accepted: pick(r, "", "a", "b", "a,b")}
	}
	return arming.Words{
		Memory: arming.Memory{All: voice(), Node: voice(),
			Findings: arming.Findings{Known: r.IntN(4) > 0, Errors: pick(r, nil, nil, []string{"a"}, []string{"b", "a"})}},
		File:   pick(r, arming.Absent, arming.Absent, arming.Absent, arming.Present, arming.Hidden),
		DryRun: r.IntN(3) > 0, Signaled: r.IntN(8) == 0, Departing: r.IntN(8) == 0, CleanedUp: r.IntN(8) == 0,
	}
}

func TestATwinAgrees(t *testing.T) {
	const tries = 200_000
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	seen := map[arming.State]int{}
	for range tries {
		w := random(r)
		got := w.Decide()
		seen[got.State]++
		if want := twin(&w); got.State != want || got.Reason == "" {
			t.Fatalf("seed %d: %+v is %s (%q), the twin says %s", seed, w, got.State, got.Reason, want)
		}
	}
	for s := range arming.State(3) {
		if seen[s] < tries/100 {
			t.Errorf("%s only %d times in %d: this tries little", s, seen[s], tries)
		}
	}
}

// Adding a setting that disarms always disarms, and only the setting armed makes a disarmed agent
// act.
func TestOnlyOneWordArms(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	stops := []func(*arming.Words){
		func(w *arming.Words) { w.File = pick(r, arming.Present, arming.Hidden) },
		func(w *arming.Words) { w.Signaled = true },
		func(w *arming.Words) { w.CleanedUp = true },
		func(w *arming.Words) { w.Departing = true },
		func(w *arming.Words) { w.All.Word = pick(r, "disarmed", "cleanup", "?") },
		func(w *arming.Words) { w.Node.Word = pick(r, "disarmed", "cleanup", "?") },
	}
	for range 50_000 {
		w := random(r)
		before := w.Decide().State
		told := w
		if told.Node.Word == "" {
			told.Node.Word = "armed"
			if before == arming.Armed && told.Decide().State != arming.Armed {
				t.Fatalf("seed %d: told to act, %+v does not any more", seed, told)
			}
		}
		stop := pick(r, stops...)
		if stop(&w); w.Decide().State == arming.Armed {
			t.Fatalf("seed %d: %+v acts", seed, w)
		}
	}
}

// Additional accepted findings and fewer findings never reduce the permission.
func TestAcceptingMoreIsNeverLess(t *testing.T) {
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
