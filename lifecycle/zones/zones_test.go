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

func usual() zones.Policy {
	return zones.Policy{Rate: 0.1, SecondaryRate: 0.01, FullRate: -1, LargeZone: 50, Unhealthy: 0.55}
}

// picture is a cluster in text form: zones by name, and in each one sign per node. + is ready,
// - not ready, o and x the same but excluded from the count, and a dot is a place without a
// node.
//
//	"a:++- b:x-"
type picture string

// show applies a picture to the zones; nodes are named by zone and position.
func show(z *zones.Zones, p picture) {
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

// told formats an update as "r/a Normal 0.1".
func told(changes []zones.Change) (lines []string) {
	for _, c := range changes {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %g", c.Place, c.State, c.Rate)))
	}
	return lines
}

func many(sign string, n int) string { return strings.Repeat(sign, n) }

// story is the expected updates of zones that go from picture to picture.
type story struct {
	name  string
	steps []step
}

type step struct {
	show picture
	told []string
	all  bool // whether all zones are fully disrupted
}

func TestHowDisruptedAZoneIs(t *testing.T) {
	for _, c := range []story{
		{"nodes without labels are one zone, and it is well", []step{{"_:+++", []string{"Normal 0.1"}, false}}},
		{"both die, one comes back", []step{
			{"a:++", []string{"r/a Normal 0.1"}, false},
			{"a:--", []string{"r/a FullDisruption 0"}, true},
			{"a:+-", []string{"r/a Normal 0.1"}, false},
		}},
		{"most have never reported when the controller starts", []step{{"a:+---", []string{"r/a PartialDisruption 0"}, false}}},
		{"the third of five is one too many", []step{
			{"a:+++--", []string{"r/a Normal 0.1"}, false},
			{"a:++---", []string{"r/a PartialDisruption 0"}, false},
			{"a:+++--", []string{"r/a Normal 0.1"}, false},
		}},
		{"three of six are half, and half is not enough", []step{{"a:+++---", []string{"r/a Normal 0.1"}, false}}},
		{"eleven of twenty are the threshold exactly", []step{{picture("a:" + many("+", 9) + many("-", 11)), []string{"r/a PartialDisruption 0"}, false}}},
		{"two are few, whatever their share, until nobody is left", []step{
			{"a:+-- b:+", []string{"r/a Normal 0.1", "r/b Normal 0.1"}, false},
			{"a:---", []string{"r/a FullDisruption 0.1"}, false},
		}},
		{"a zone of one that dies is gone fully", []step{{"a:- b:+", []string{"r/a FullDisruption 0.1", "r/b Normal 0.1"}, false}}},
		{"one zone after the other goes; the last one stops them all", []step{
			{"a:++ b:++", []string{"r/a Normal 0.1", "r/b Normal 0.1"}, false},
			{"a:--", []string{"r/a FullDisruption 0.1"}, false},
			{"b:--", []string{"r/a FullDisruption 0", "r/b FullDisruption 0"}, true},
			{"b:--", nil, true},
			{"b:-+", []string{"r/a FullDisruption 0.1", "r/b Normal 0.1"}, false},
		}},
		{"a node without the condition is not ready, like any other", []step{
			{"a:+", []string{"r/a Normal 0.1"}, false},
			{"a:-", []string{"r/a FullDisruption 0"}, true},
		}},
		{"the only ready node is left out: those that count are all gone", []step{{"a:o-", []string{"r/a FullDisruption 0"}, true}}},
		{"where nobody counts nothing is disrupted", []step{{"a:xxx", []string{"r/a Normal 0.1"}, false}}},
		{"who does not count is no witness that the cluster lives", []step{{"a:xo b:-", []string{"r/a Normal 0", "r/b FullDisruption 0"}, true}}},
		{"fifty are not large", []step{{picture("a:" + many("+", 20) + many("-", 30)), []string{"r/a PartialDisruption 0"}, false}}},
		{"fifty-one are", []step{{picture("a:" + many("+", 20) + many("-", 31)), []string{"r/a PartialDisruption 0.01"}, false}}},
		{"a zone that grows large gets its rate", []step{
			{picture("a:" + many("+", 20) + many("-", 30)), []string{"r/a PartialDisruption 0"}, false},
			{picture("a:" + many("+", 20) + many("-", 31)), []string{"r/a PartialDisruption 0.01"}, false},
		}},
		{"a zone without nodes is not told of; the others are judged without it", []step{
			{"a:+ b:-", []string{"r/a Normal 0.1", "r/b FullDisruption 0.1"}, false},
			{"a:.", []string{"r/b FullDisruption 0"}, true},
			{"a:+", []string{"r/a Normal 0.1", "r/b FullDisruption 0.1"}, false},
		}},
		{"an empty cluster is not disrupted", []step{{"a:.", nil, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			z := zones.New(usual())
			for i, s := range c.steps {
				show(z, s.show)
				if got := told(z.Update(start)); !slices.Equal(got, s.told) || z.AllFull() != s.all {
					t.Errorf("step %d (%s): told %q instead of %q, all full: %v", i, s.show, got, s.told, z.AllFull())
				}
			}
		})
	}
}

func TestARateOfItsOwnForLostZones(t *testing.T) {
	p := usual()
	p.FullRate = 0
	z := zones.New(p)
	show(z, "a:-- b:+")
	if got, want := told(z.Update(start)), []string{"r/a FullDisruption 0", "r/b Normal 0.1"}; !slices.Equal(got, want) {
		t.Errorf("told %q instead of %q", got, want)
	}
}

func TestTheFirstLookIsMarked(t *testing.T) {
	z := zones.New(usual())
	show(z, "a:-- b:+")
	want := zones.Change{Place: place("a"), State: zones.FullDisruption, Rate: 0.1, WasState: zones.Normal, WasRate: 0.1, First: true}
	if got := z.Update(start); len(got) != 2 || got[0] != want {
		t.Errorf("told %+v", got)
	}
	show(z, "a:+-")
	want = zones.Change{Place: place("a"), State: zones.Normal, Rate: 0.1, WasState: zones.FullDisruption, WasRate: 0.1}
	if got := z.Update(start); len(got) != 1 || got[0] != want {
		t.Errorf("told %+v", got)
	}
}

func TestFiguresForMetrics(t *testing.T) {
	z := zones.New(usual())
	show(z, "b:+--- a:++x c:+")
	z.Update(start)
	show(z, "c:.")
	z.Update(start)
	var lines []string
	z.Each(func(p model.Place, s zones.State, rate float64, size, unready int) {
		lines = append(lines, fmt.Sprintf("%s %s %g %d %d", p, s, rate, size, unready))
		ready, not := z.Count(p)
		if state, r := z.State(p); state != s || r != rate || not != unready || ready+not != size {
			t.Errorf("%s is another when asked for alone: %s %g, %d and %d", p, state, r, ready, not)
		}
	})
	if want := []string{"r/a Normal 0.1 2 0", "r/b PartialDisruption 0 4 3"}; !slices.Equal(lines, want) {
		t.Errorf("%q instead of %q", lines, want)
	}
}
