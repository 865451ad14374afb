package live_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"plimsoll.dev/plimsoll/internal/live"
)

// minimal is a state without anything.
const minimal = `{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState"}`

func TestParse_RefusesWhatIsNoState(t *testing.T) {
	for _, line := range []string{
		"", "null", "[]", "7", "{}", "x", minimal + minimal, minimal + "x", `{"apiVersion":"plimsoll.dev/v1alpha1","kind":"Versions"}`, `{"apiVersion":"v1","kind":"NodeState"}`,
		`{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState","pods":{}}`, `{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState","podCount":1e99}`,
		`{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState","time":"soon"}`,
	} {
		if s, err := live.Parse([]byte(line)); err == nil {
			t.Errorf("%s: %+v", line, s)
		}
	}
	later := strings.Replace(minimal, "{", `{"later":{"deep":[1]},`, 1)
	for _, line := range []string{minimal, later, "\t" + minimal + "\r"} {
		if _, err := live.Parse([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Each text of a state is made printable and bounded, and each list is bounded. The test fails for a new field without that.
func TestParse_BoundsEveryTextAndList(t *testing.T) {
	hostile := "a\x1b[2J\u202e\u4e16\u0301\ufeff" + strings.Repeat("x", 1_000)
	lines := func(form string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(form, "H")+",", 300), ",") + "]"
	}
	text := fmt.Sprintf(`{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState","node":"H","agentVersion":"H","arming":"H","lastCheck":{"kind":"H"},"conditions":%s,
		"signals":%s,"next":{"signal":"H","threshold":"H","pod":"H","reason":"H","instead":"H","approximate":"H","ranking":%s},
		"pods":%s,"podCount":-5,"decisions":%s,"notes":%s}`, lines(`"%[1]s"`), lines(`{"signal":"%[1]s","kind":"%[1]s","threshold":"%[1]s","unknown":"%[1]s"}`),
		lines(`{"place":1,"pod":"%[1]s","reason":"%[1]s"}`), lines(`{"pod":"%[1]s","protection":"%[1]s"}`),
		lines(`{"decision":"%[1]s","pod":"%[1]s","subject":"%[1]s","reason":"%[1]s"}`), lines(`"%[1]s"`))
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := live.Parse([]byte(strings.ReplaceAll(text, `"H"`, string(quoted))))
	if err != nil {
		t.Fatal(err)
	}
	if s.PodCount != len(s.Pods) || len(s.Signals) > 64 || len(s.Pods) > 250 || len(s.Decisions) > 10 || len(s.Next.Ranking) > 5 || len(s.Notes) > 8 || len(s.Conditions) > 4 {
		t.Errorf("%d of %d pods, %d signals, %d decisions, %d places, %d notes, %d conditions", len(s.Pods), s.PodCount, len(s.Signals), len(s.Decisions), len(s.Next.Ranking), len(s.Notes), len(s.Conditions))
	}
	line, err := s.Line()
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(line, &all); err != nil {
		t.Fatal(err)
	}
	checkTexts(t, "state", all)
}

// checkTexts checks every text of a document.
func checkTexts(t *testing.T, where string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			checkTexts(t, where+"."+key, value)
		}
	case []any:
		for _, value := range v {
			checkTexts(t, where, value)
		}
	case string:
		wide := strings.ContainsFunc(v, func(r rune) bool { return r >= 0x300 || !unicode.IsPrint(r) })
		if wide || len(v) > 600 {
			t.Errorf("%s has %d bytes: %.40q", where, len(v), v)
		}
	}
}

func TestMillis_OfAnyNumber(t *testing.T) {
	for ms, want := range map[float64]time.Duration{-1: 0, 0: 0, 1.5: 1500 * time.Microsecond, 1e300: 365 * 24 * time.Hour} {
		if got := live.Millis(ms); got != want {
			t.Errorf("%g: %s, want %s", ms, got, want)
		}
	}
}

func FuzzParse_GivesPrintableStates(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(`{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState","node":"\u001b[2J","pods":[{"pod":"a","memory":-1}],"next":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := live.Parse(line)
		if err != nil {
			return
		}
		text, err := s.Line()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := live.Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
