package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// quietNode returns a node as Reading makes it.
func quietNode(r *Reading) *node { return r.node("n") }

// What a file can have in any number is bounded: nodes, spans of checks and usages, changes of the time of day, and pods
// without an end. Beyond the bound there is an error.
func TestReading_IsBounded(t *testing.T) {
	many := func(f func(n *node, i int)) func(*Reading) {
		return func(r *Reading) {
			for i := range maxFacts + 2 {
				f(quietNode(r), i)
			}
		}
	}
	hours := func(i int) time.Time { return started.Add(time.Duration(i) * time.Hour) }
	for about, fill := range map[string]func(*Reading){
		"nodes": func(r *Reading) {
			for i := range 2 * maxNodes {
				r.node(fmt.Sprint("node-", i))
			}
			if len(r.nodes) > maxNodes+1 {
				t.Errorf("%d nodes are stored", len(r.nodes))
			}
		},
		"checks": many(func(n *node, i int) { n.addCheck(&recording.Check{}, hours(i), Place{}) }),
		"usages": many(func(n *node, i int) {
			n.addUsage(&recording.Usage{Node: [recording.NodeValueCount]int64{recording.NodeOOMKills: recording.Unknown}}, hours(i), Place{})
		}),
		"steps": many(func(n *node, i int) {
			n.addCheck(&recording.Check{Clock: time.Duration(i) * time.Minute}, started.Add(time.Duration(i)*time.Second), Place{})
		}),
		"pods without an end": many(func(n *node, i int) {
			n.addUsage(&recording.Usage{Pods: []recording.PodUsage{{Pod: podOf(fmt.Sprint(i))}}}, started.Add(time.Duration(i)*time.Second), Place{})
		}),
		"all nodes": func(r *Reading) {
			for i := range maxAllFacts/decisionFacts + 1 {
				r.node(fmt.Sprint("n", i%99)).addDecision(&decision{at: hours(i)})
			}
		},
		"pairs": func(r *Reading) {
			for i := range 1 << 14 {
				quietNode(r).addDecision(&decision{at: hours(i), last: hours(i), uid: "a", resource: "memory"})
				quietNode(r).addKill(&line{}, hours(i), Place{})
			}
		},
	} {
		r := NewReading(Options{})
		fill(r)
		if _, err := r.Report(); !errors.Is(err, ErrTooMany) {
			t.Errorf("%s: %v", about, err)
		}
		for _, n := range r.nodes {
			if len(n.checks)+len(n.usages)+len(n.steps)+len(n.vanished)+len(n.run.missing) > 3*maxFacts {
				t.Errorf("%s: %d checks, %d usages, %d steps, %d without an end", about, len(n.checks), len(n.usages), len(n.steps), len(n.vanished)+len(n.run.missing))
			}
		}
	}
}

// A line of any length is not decoded, and the places of a choice that are not used are not stored.
func TestReading_LongLines(t *testing.T) {
	places := strings.TrimSuffix(strings.Repeat(`{},`, 100_000), ",")
	text := fmt.Appendf(nil, `{"time":"2026-03-01T12:00:00Z","decision":"would-evict","uid":"a","choice":{"places":[%s]}}`, places)
	r := NewReading(Options{})
	if err := r.AddDecisions("x", "n", text); err != nil {
		t.Fatal(err)
	}
	if c := quietNode(r).decisions[0].choice; len(c.Places) != maxPlaces || cap(c.Places) > 2*maxPlaces {
		t.Errorf("%d places of %d are stored", len(c.Places), cap(c.Places))
	}
	long := bytes.Replace(text, []byte(`"uid":"a"`), fmt.Appendf(nil, `"uid":"%s"`, strings.Repeat("a", maxLine)), 1)
	if _, malformed := errors.AsType[*recording.MalformedError](NewReading(Options{}).AddDecisions("x", "n", long)); !malformed {
		t.Error("a long line is decoded")
	}
}

// A time without a form in JSON does not make the whole report unreadable.
func TestReading_LateTimes(t *testing.T) {
	r := NewReading(Options{})
	c := &recording.Check{}
	c.Snapshot.At = time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
	for _, clock := range []time.Duration{0, 2 * time.Hour} {
		c.Clock = clock
		quietNode(r).add(&recording.Entry{Check: c}, Place{})
	}
	report := reportOf(t, r)
	if _, err := json.Marshal(report); err != nil || !slices.Contains(report.Missing, "Node n: 2 records are in a form that this version cannot read.") {
		t.Errorf("%v, missing %q", err, report.Missing)
	}
}
