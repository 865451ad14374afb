package zones_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

var start = time.Unix(1_000_000, 0)

func after(d time.Duration) time.Time { return start.Add(d) }

func defaultPolicy() zones.Policy {
	return zones.Policy{Rate: 0.1, SecondaryRate: 0.01, FullRate: -1, LargeZone: 50, Unhealthy: 0.55}
}

// layout is a cluster in text form: zones by name, and in each one sign per node. + is ready,
// - not ready, o and x the same but excluded from the count, and a dot is a place without a
// node.
//
//	"a:++- b:x-"
type layout string

// apply applies a layout to the zones; nodes are named by zone and position.
func apply(z *zones.Zones, p layout) {
	for _, text := range strings.Fields(string(p)) {
		name, signs, _ := strings.Cut(text, ":")
		for i, sign := range signs {
			node := fmt.Sprintf("%s-%d", name, i)
			if sign == '.' {
				z.Remove(node)
			} else {
				z.Set(node, place(name), strings.ContainsRune("+o", sign), strings.ContainsRune("+-", sign))
			}
		}
	}
}

// place returns the zone of that name; _ is that of nodes without labels.
func place(name string) model.Place {
	if name == "_" {
		return model.Place{}
	}
	return model.Place{Region: "r", Zone: name}
}

// changeLines formats an update as "r/a Normal 0.1".
func changeLines(changes []zones.Change) (lines []string) {
	for _, c := range changes {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %g", c.Place, c.State, c.Rate)))
	}
	return lines
}

func many(sign string, n int) string { return strings.Repeat(sign, n) }

// scenario is a sequence of layouts with the expected updates.
type scenario struct {
	name  string
	steps []step
}

type step struct {
	layout layout
	want   []string
	all    bool // whether all zones are fully disrupted
}

func TestUpdate_DerivesStateAndRate(t *testing.T) {
	for _, c := range []scenario{
		{"nodes without labels form one zone", []step{{"_:+++", []string{"Normal 0.1"}, false}}},
		{"both nodes fail, one recovers", []step{
			{"a:++", []string{"r/a Normal 0.1"}, false},
			{"a:--", []string{"r/a FullDisruption 0"}, true},
			{"a:+-", []string{"r/a Normal 0.1"}, false},
		}},
		{"most nodes without a report at startup", []step{{"a:+---", []string{"r/a PartialDisruption 0"}, false}}},
		{"third of five unready", []step{
			{"a:+++--", []string{"r/a Normal 0.1"}, false},
			{"a:++---", []string{"r/a PartialDisruption 0"}, false},
			{"a:+++--", []string{"r/a Normal 0.1"}, false},
		}},
		{"three of six, below the threshold", []step{{"a:+++---", []string{"r/a Normal 0.1"}, false}}},
		{"eleven of twenty, exactly the threshold", []step{{layout("a:" + many("+", 9) + many("-", 11)), []string{"r/a PartialDisruption 0"}, false}}},
		{"two unready at any share, then none ready", []step{
			{"a:+-- b:+", []string{"r/a Normal 0.1", "r/b Normal 0.1"}, false},
			{"a:---", []string{"r/a FullDisruption 0.1"}, false},
		}},
		{"zone with a single node that fails", []step{{"a:- b:+", []string{"r/a FullDisruption 0.1", "r/b Normal 0.1"}, false}}},
		{"zones fail in sequence, the last one stops all", []step{
			{"a:++ b:++", []string{"r/a Normal 0.1", "r/b Normal 0.1"}, false},
			{"a:--", []string{"r/a FullDisruption 0.1"}, false},
			{"b:--", []string{"r/a FullDisruption 0", "r/b FullDisruption 0"}, true},
			{"b:--", nil, true},
			{"b:-+", []string{"r/a FullDisruption 0.1", "r/b Normal 0.1"}, false},
		}},
		{"node without the condition", []step{
			{"a:+", []string{"r/a Normal 0.1"}, false},
			{"a:-", []string{"r/a FullDisruption 0"}, true},
		}},
		{"only ready node excluded", []step{{"a:o-", []string{"r/a FullDisruption 0"}, true}}},
		{"all nodes excluded", []step{{"a:xxx", []string{"r/a Normal 0.1"}, false}}},
		{"excluded ready node in a lost cluster", []step{{"a:xo b:-", []string{"r/a Normal 0", "r/b FullDisruption 0"}, true}}},
		{"fifty nodes, not large", []step{{layout("a:" + many("+", 20) + many("-", 30)), []string{"r/a PartialDisruption 0"}, false}}},
		{"fifty-one nodes, large", []step{{layout("a:" + many("+", 20) + many("-", 31)), []string{"r/a PartialDisruption 0.01"}, false}}},
		{"zone that becomes large", []step{
			{layout("a:" + many("+", 20) + many("-", 30)), []string{"r/a PartialDisruption 0"}, false},
			{layout("a:" + many("+", 20) + many("-", 31)), []string{"r/a PartialDisruption 0.01"}, false},
		}},
		{"zone without nodes", []step{
			{"a:+ b:-", []string{"r/a Normal 0.1", "r/b FullDisruption 0.1"}, false},
			{"a:.", []string{"r/b FullDisruption 0"}, true},
			{"a:+", []string{"r/a Normal 0.1", "r/b FullDisruption 0.1"}, false},
		}},
		{"empty cluster", []step{{"a:.", nil, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			z := zones.New(defaultPolicy())
			for i, s := range c.steps {
				apply(z, s.layout)
				if got := changeLines(z.Update(start)); !slices.Equal(got, s.want) || z.AllFull() != s.all {
					t.Errorf("step %d (%s): got %q, all full: %v, want %q, %v", i, s.layout, got, z.AllFull(), s.want, s.all)
				}
			}
		})
	}
}

func TestUpdate_AppliesFullRate(t *testing.T) {
	p := defaultPolicy()
	p.FullRate = 0
	z := zones.New(p)
	apply(z, "a:-- b:+")
	if got, want := changeLines(z.Update(start)), []string{"r/a FullDisruption 0", "r/b Normal 0.1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUpdate_FlagsFirstEvaluation(t *testing.T) {
	z := zones.New(defaultPolicy())
	apply(z, "a:-- b:+")
	want := zones.Change{Place: place("a"), State: zones.FullDisruption, Rate: 0.1, WasState: zones.Normal, WasRate: 0.1, First: true}
	if got := z.Update(start); len(got) != 2 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	apply(z, "a:+-")
	want = zones.Change{Place: place("a"), State: zones.Normal, Rate: 0.1, WasState: zones.FullDisruption, WasRate: 0.1}
	if got := z.Update(start); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEach_YieldsEvaluatedZones(t *testing.T) {
	z := zones.New(defaultPolicy())
	apply(z, "b:+--- a:++x c:+")
	z.Update(start)
	apply(z, "c:.")
	z.Update(start)
	var lines []string
	z.Each(func(p model.Place, s zones.State, rate float64, size, unready int) {
		lines = append(lines, fmt.Sprintf("%s %s %g %d %d", p, s, rate, size, unready))
		ready, not := z.Count(p)
		if state, r := z.State(p); state != s || r != rate || not != unready || ready+not != size {
			t.Errorf("%s: State and Count return %s %g, %d ready, %d unready, but Each yields %s %g, %d of %d unready", p, state, r, ready, not, s, rate, unready, size)
		}
	})
	if want := []string{"r/a Normal 0.1 2 0", "r/b PartialDisruption 0 4 3"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}
