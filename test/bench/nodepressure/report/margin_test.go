package report

import (
	"bytes"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// killed is a run in which the first kill left so many percent of the threshold, which would have lasted for a time.
func killed(incident string, seed uint64, percent int64, lasts float64) *result.Result {
	r := run("a", incident, "first", seed, score.Won)
	left := r.Observation.Threshold / 100 * percent
	r.Score.LeftAtKill = &left
	if lasts > 0 {
		r.Score.TimeLeft = &lasts
	}
	return r
}

// TestMargin_IsTheLargerShare checks that a fast leak is judged by the threshold and a slow one by the horizon.
func TestMargin_IsTheLargerShare(t *testing.T) {
	without := killed("grows", 6, 80, 100)
	without.Observation.Threshold = 0
	other := killed("grows", 7, 1, 1)
	other.Contestant.Name = "second"
	all := []*result.Result{
		killed("grows", 1, 96, 120), killed("grows", 2, 50, 450), killed("grows", 3, 80, 100), killed("grows", 4, 20, 300),
		killed("dips", 1, 95, 0),                  // memory did not fall
		run("a", "grows", "first", 5, score.Lost), // nothing was killed
		without, other,
	}
	r := New(all)
	var err error
	if r.Margin, err = ParseMargin("first=500ms", all); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	want := "| a | dips | 1 | 95 % (95 %) | 0.00 % (0.00 %) | 95 % (95 %) | 1/1 |\n" +
		"| a | grows | 4 | 65 % (20 %) | 42 % (20 %) | 85 % (60 %) | 2/4 |\n\n"
	if !strings.Contains(text.String(), want) {
		t.Errorf("the table lacks\n%s\n%s", want, text.String())
	}
}

func TestParseMargin_RejectsBadHorizons(t *testing.T) {
	for _, text := range []string{"", "first", "first=", "first=500", "=500ms", "first=0s", "first=-1s"} {
		if _, err := ParseMargin(text, nil); err == nil || !strings.Contains(err.Error(), "want CONTESTANT=TIME") {
			t.Errorf("%q: got %v, want an error that states the form", text, err)
		}
	}
}
