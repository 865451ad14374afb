package decisionlog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/ranking"
)

// The line of an eviction has the keys that it had before records were stored.
func TestRecord_LineHasNoChoice(t *testing.T) {
	r := decisionlog.Record{Time: time.Unix(0, 0).UTC(), Decision: "evict", Pod: "ns/a", Conditions: []string{},
		Choice: &decisionlog.Choice{Cause: "memory.available"}, End: "recovered"}
	text, err := json.Marshal(r.Line())
	if want := `{"time":"1970-01-01T00:00:00Z","decision":"evict","conditions":[],"pod":"ns/a"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if r.Choice == nil || r.End == "" {
		t.Error("the record itself was changed")
	}
	if text, err = json.Marshal(&r); err != nil || !strings.Contains(string(text), `"choice":{"cause":"memory.available"},"end":"recovered"}`) {
		t.Errorf("%s, %v, want choice and end at its end", text, err)
	}
}

func TestRecord_EvictedAndNext(t *testing.T) {
	place := func(name, passed string) decisionlog.Place {
		return decisionlog.Place{Pod: "ns/" + name, UID: name, Key: ranking.Key{Usage: 1}, Passed: passed}
	}
	for about, test := range map[string]struct {
		places        []decisionlog.Place
		evicted, next string
	}{
		"no ranking":         {nil, "", ""},
		"the last":           {[]decisionlog.Place{place("a", ""), place("v", "")}, "ns/v", ""},
		"next is protected":  {[]decisionlog.Place{place("v", ""), place("b", "static pod")}, "ns/v", ""},
		"a later one":        {[]decisionlog.Place{place("v", ""), place("b", "static pod"), place("c", "")}, "ns/v", "ns/c"},
		"it is not recorded": {[]decisionlog.Place{place("b", "")}, "", ""},
	} {
		r := decisionlog.Record{Pod: "ns/v", UID: "v", Choice: &decisionlog.Choice{Places: test.places}}
		evicted, next := r.Evicted()
		if got := [2]string{nameOf(evicted), nameOf(next)}; got != [2]string{test.evicted, test.next} {
			t.Errorf("%s: %q, want %q and %q", about, got, test.evicted, test.next)
		}
	}
	if evicted, next := (&decisionlog.Record{}).Evicted(); evicted != nil || next != nil {
		t.Error("a record without a choice has places")
	}
}

func nameOf(p *decisionlog.Place) string {
	if p == nil {
		return ""
	}
	return p.Pod
}
