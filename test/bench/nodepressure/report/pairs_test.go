package report

import (
	"bytes"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// TestPairs_AreOfOneSeed checks which runs repeat each other, and that a row shows a plan, a verdict and figures that differ.
func TestPairs_AreOfOneSeed(t *testing.T) {
	again := []*result.Result{
		run("a", "grows", "first", 2, score.Lost), run("a", "grows", "first", 1, score.Won), // the second verdict differs
		run("a", "grows", "second", 2, score.Wrong), // no first run
		run("a", "dips", "first", 1, score.Won),     // its first run is invalid
		run("a", "dips", "second", 1, score.Invalid),
		run("c", "grows", "first", 1, score.Won), // another machine
	}
	slower := 38.0
	again[0].Score.CrossingToDead, again[0].Score.Least, again[0].Observation.Plan = &slower, 20<<20, "another"
	r := New(results())
	r.Pairs = Pairs(results(), again)
	if len(r.Pairs) != 2 || r.Pairs[0].First.Seed != 1 || r.Pairs[1].Again != again[0] {
		t.Fatalf("got %d pairs, want those of the seeds 1 and 2", len(r.Pairs))
	}
	var text bytes.Buffer
	if err := r.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	if want := "| a | grows | first | 2 | 1 | 1 | 31 ms to 38 ms | 6.0 ms | – | – | 20Mi to 50Mi | 30Mi |\n"; !strings.Contains(text.String(), want) {
		t.Errorf("the table lacks\n%s\n%s", want, text.String())
	}
}

// TestPairs_WithoutAKill checks that a run in which nothing ended is no noise of a time.
func TestPairs_WithoutAKill(t *testing.T) {
	first, again := run("a", "grows", "first", 1, score.Won), run("a", "grows", "first", 1, score.Lost)
	again.Score.CrossingToDead = nil
	if got := crossingToDead.noise(Pairs([]*result.Result{first}, []*result.Result{again})); got[0] != "–" || got[1] != "–" {
		t.Errorf("noise of a time that one run lacks: %v", got)
	}
}
