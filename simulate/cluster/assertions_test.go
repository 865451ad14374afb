package cluster_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// printed is a line with its time.
type printed struct {
	at   time.Duration
	keys map[string]any
}

func decoded(t *testing.T, output string) (lines []printed) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(output)); d.More(); {
		keys := map[string]any{}
		if err := d.Decode(&keys); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, printed{moment(t, keys["at"]), keys})
	}
	return lines
}

func moment(t *testing.T, text any) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(fmt.Sprint(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// pattern has the expected values of a line: an equal value, a string with the prefix before *,
// or one of several values.
type pattern map[string]any

func (p pattern) matches(l printed) bool {
	for key, want := range p {
		got, is := l.keys[key]
		if !is || !valueMatches(want, got) {
			return false
		}
	}
	return true
}

func valueMatches(want, got any) bool {
	switch w := want.(type) {
	case []any:
		for _, one := range w {
			if valueMatches(one, got) {
				return true
			}
		}
		return false
	case float64:
		g, is := got.(float64)
		return is && math.Abs(w-g) <= 1e-6*max(1, math.Abs(w))
	case string:
		if prefix, open := strings.CutSuffix(w, "*"); open {
			g, is := got.(string)
			return is && strings.HasPrefix(g, prefix)
		}
	}
	return want == got
}

// assertion is an assertion of an .expect.json file. Exactly one of the first six is set. From
// and To are inclusive, and default to the whole time.
type assertion struct {
	Some, None, Count, Rate pattern
	Order, Delay            []pattern
	From, To                *string
	Min, Max                any // counts, or durations of a delay
	PerSecond               float64
	Burst, Tolerance        float64
	Why                     string
}

// check returns the actual result if the assertion fails; empty if it holds.
func (a *assertion) check(t *testing.T, lines []printed) string {
	t.Helper()
	selected := func(p pattern) (at []time.Duration) {
		for _, l := range lines {
			late := a.To != nil && l.at > moment(t, *a.To)
			early := a.From != nil && l.at < moment(t, *a.From)
			if !late && !early && p.matches(l) {
				at = append(at, l.at)
			}
		}
		return at
	}
	switch {
	case a.Some != nil:
		if len(selected(a.Some)) == 0 {
			return "no line"
		}
	case a.None != nil:
		if at := selected(a.None); len(at) > 0 {
			return fmt.Sprint("lines at ", at)
		}
	case a.Count != nil:
		at := selected(a.Count)
		if n := float64(len(at)); n < bound(a.Min, 0) || n > bound(a.Max, n) {
			return fmt.Sprint(n, " lines at ", at)
		}
	case a.Rate != nil:
		return a.tooFast(selected(a.Rate))
	case a.Delay != nil:
		from, to := selected(a.Delay[0]), selected(a.Delay[1])
		if len(from) == 0 || len(to) == 0 {
			return "no line"
		}
		if took := to[0] - from[0]; took < moment(t, a.Min) || took > moment(t, a.Max) {
			return took.String()
		}
	default:
		t.Fatalf("an assertion of no kind: %+v", a)
	}
	return ""
}

func bound(v any, absent float64) float64 {
	if f, is := v.(float64); is {
		return f
	}
	return absent
}

// tooFast checks every window against the maximum rate.
func (a *assertion) tooFast(at []time.Duration) string {
	for i := range at {
		for j := i; j < len(at); j++ {
			window := (at[j] - at[i]).Seconds()
			if float64(j-i+1) > a.Burst+a.Tolerance+a.PerSecond*window+1e-9 {
				return fmt.Sprintf("%d from %s to %s", j-i+1, at[i], at[j])
			}
		}
	}
	return ""
}
