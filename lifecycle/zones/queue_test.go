package zones_test

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/zones"
)

const (
	second = time.Second
	ns     = time.Nanosecond
)

// env is a cluster with waiting nodes.
type env struct {
	*testing.T
	*zones.Zones
}

// newEnv creates a cluster in which the nodes wait, each since the given number of seconds after
// the start.
func newEnv(t *testing.T, p zones.Policy, shown layout, since map[string]int) env {
	z := zones.New(p)
	apply(z, shown)
	z.Update(start)
	for name, s := range since {
		z.Wait(name, after(time.Duration(s)*second))
	}
	return env{t, z}
}

// serves expects these nodes to be served at that time, and none a nanosecond before.
func (e env) serves(at time.Duration, want ...string) {
	e.Helper()
	if got := e.Take(after(at - ns)); got != nil {
		e.Fatalf("a nanosecond before %s: got %q, want none", at, got)
	}
	if next, ok := e.Next(); len(want) > 0 && (!ok || next.After(after(at))) {
		e.Fatalf("Next() = %v, %v, want at most %s after the start", next, ok, at)
	}
	if got := e.Take(after(at)); !slices.Equal(got, want) {
		e.Fatalf("at %s: got %q, want %q", at, got, want)
	}
}

// starts is serves for full buckets.
func (e env) starts(want ...string) {
	e.Helper()
	if got := e.Take(start); !slices.Equal(got, want) {
		e.Fatalf("at the start: got %q, want %q", got, want)
	}
}

func (e env) applies(at time.Duration, p layout) {
	apply(e.Zones, p)
	e.Update(after(at))
}

func TestTake_ServesLongestWaitFirst(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:+++---", map[string]int{"a-3": -1, "a-4": -3, "a-5": -2})
	e.starts("a-4")
	e.serves(10*second, "a-5")
	e.serves(20*second, "a-3")
	e.serves(30 * second)
	if at, ok := e.Next(); ok {
		t.Errorf("Next() = %v, but no node waits", at)
	}
}

func TestTake_BreaksTiesByName(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:+++---", map[string]int{"a-5": 0, "a-3": 0, "a-4": 0})
	e.starts("a-3")
	e.serves(10*second, "a-4")
	e.serves(20*second, "a-5")
}

func TestWait_QueuesNodeOnceUntilServed(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:+++---", map[string]int{"a-3": -5, "a-4": -4})
	e.Wait("a-3", after(-3*second)) // younger than before: a-4 precedes it now
	e.starts("a-4")
	e.serves(10*second, "a-3")
	e.serves(20 * second)
	e.Wait("a-3", after(20*second)) // a served node waits only if it joins again
	if got := e.Take(after(20 * second)); !slices.Equal(got, []string{"a-3"}) {
		t.Errorf("got %q, want a-3", got)
	}
	e.Wait("stranger", start)
	e.serves(30 * second)
}

func TestLeave_CostsNoToken(t *testing.T) {
	for _, c := range []struct{ leaves, first, second string }{
		{"a-3", "a-4", "a-5"}, {"a-4", "a-3", "a-5"}, {"a-5", "a-3", "a-4"},
	} {
		for name, leave := range map[string]func(env){
			"recovers":   func(e env) { e.Leave(c.leaves) },
			"is deleted": func(e env) { e.Remove(c.leaves) },
		} {
			e := newEnv(t, defaultPolicy(), "a:+++---", map[string]int{"a-3": -3, "a-4": -2, "a-5": -1})
			leave(e)
			leave(e)
			if _, _, waits := e.Waiting(c.leaves); waits {
				t.Errorf("%s %s, but still waits", c.leaves, name)
			}
			e.starts(c.first)
			e.serves(10*second, c.second)
			e.serves(20 * second)
		}
	}
}

func TestTake_UsesTokensPerZone(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "b:+-- a:+-- _:+-", map[string]int{"a-1": 0, "a-2": 1, "b-1": 0, "b-2": -1, "_-1": 3})
	e.starts("_-1", "a-1", "b-2")
	e.serves(10*second, "a-2", "b-1")
}

func TestSet_MovesWaitingNodeToNewZone(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:+-- b:+-", map[string]int{"a-1": -9, "a-2": -8, "b-1": -7})
	e.Set("a-1", place("b"), false, true)
	since, of, ok := e.Waiting("a-1")
	if !ok || of != 2 || !since.Equal(after(-9*second)) {
		t.Errorf("Waiting() = %v, %d, %v", since, of, ok)
	}
	e.Update(start)
	e.starts("a-2", "a-1")
	e.serves(10*second, "b-1")
}

func TestWait_AcceptsExcludedNode(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:+x", map[string]int{"a-1": 0})
	e.starts("a-1")
}

func TestTake_SavesAtMostOneToken(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:++++---", map[string]int{"a-4": 0})
	e.starts("a-4")
	e.Wait("a-5", after(500*second))
	e.Wait("a-6", after(501*second))
	if got := e.Take(after(600 * second)); !slices.Equal(got, []string{"a-5"}) {
		t.Fatalf("got %q, want a-5", got)
	}
	e.serves(610*second, "a-6")
}

func TestGiveBack_ReturnsTokenOnce(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:++++---", map[string]int{"a-4": 0, "a-5": 1, "a-6": 2})
	e.starts("a-4")
	e.GiveBack("a-4", after(3*second))
	e.GiveBack("a-4", after(3*second)) // no effect
	if next, ok := e.Next(); !ok || next.After(after(3*second)) {
		t.Errorf("Next() = %v, %v, but the token was returned", next, ok)
	}
	if got := e.Take(after(3 * second)); !slices.Equal(got, []string{"a-5"}) {
		t.Fatalf("got %q, want a-5", got)
	}
	e.GiveBack("a-4", after(4*second)) // a-4 has no token any more
	e.serves(13*second, "a-6")
}

func TestGiveBack_IgnoredAfterLaterToken(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:++++---", map[string]int{"a-4": 0, "a-5": 1, "a-6": 2})
	e.starts("a-4")
	e.serves(10*second, "a-5")
	e.GiveBack("a-4", after(12*second)) // without a-4 there would have been one at 10s and the next at 20s
	e.serves(20*second, "a-6")
}

func TestGiveBack_WorksAfterRemovalOrMove(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:++++--- b:+", map[string]int{"a-4": 0, "a-5": 1, "a-6": 2})
	e.starts("a-4")
	e.Remove("a-4")
	e.GiveBack("a-4", after(second))
	if got := e.Take(after(second)); !slices.Equal(got, []string{"a-5"}) {
		t.Fatalf("got %q, want a-5", got)
	}
	e.Set("a-5", place("b"), false, true)
	e.GiveBack("a-5", after(2*second))
	if got := e.Take(after(2 * second)); !slices.Equal(got, []string{"a-6"}) {
		t.Fatalf("got %q, want a-6", got)
	}
}

func TestGiveBack_IgnoredAfterStop(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:+++--", map[string]int{"a-3": 0, "a-4": 1})
	e.starts("a-3")
	e.applies(second, "a:-----")
	e.GiveBack("a-3", after(2*second))
	e.applies(3*second, "a:+++--")
	e.serves(13*second, "a-4")
}

// TestUpdate_AppliesRateChange covers the three rates of one zone: healthy, partially disrupted,
// and fully disrupted beside a healthy one.
func TestUpdate_AppliesRateChange(t *testing.T) {
	p := zones.Policy{Rate: 0.1, SecondaryRate: 0.01, FullRate: 0.5, LargeZone: 3, Unhealthy: 0.55}
	const well, part, lost = "a:++-- b:+", "a:+--- b:+", "a:---- b:+"
	waiting := map[string]int{"a-3": 0, "a-2": 1}
	t.Run("partial token is lost", func(t *testing.T) {
		e := newEnv(t, p, well, waiting)
		e.starts("a-3")
		e.applies(9*second, part)
		e.serves(109*second, "a-2")
	})
	t.Run("partial token is lost at a higher rate", func(t *testing.T) {
		e := newEnv(t, p, well, waiting)
		e.starts("a-3")
		e.applies(9*second, lost)
		e.serves(11*second, "a-2")
	})
	t.Run("available token stays", func(t *testing.T) {
		e := newEnv(t, p, well, map[string]int{"a-3": 0})
		e.starts("a-3")
		e.applies(10*second, part)
		e.Wait("a-2", after(10*second))
		if got := e.Take(after(10 * second)); !slices.Equal(got, []string{"a-2"}) {
			t.Fatalf("got %q, want a-2", got)
		}
	})
	t.Run("same rate in another state", func(t *testing.T) {
		q := p
		q.FullRate = -1
		e := newEnv(t, q, well, waiting)
		e.starts("a-3")
		e.applies(9*second, lost)
		e.serves(10*second, "a-2")
	})
	t.Run("stop drops the available token", func(t *testing.T) {
		e := newEnv(t, p, well, map[string]int{"a-3": 0})
		e.applies(20*second, "a:---- b:-")
		if _, ok := e.Next(); ok {
			t.Error("Next() has a time although all zones stopped")
		}
		e.applies(30*second, well)
		e.serves(40*second, "a-3")
	})
}

func TestUpdate_EveryRateResumesAfterStop(t *testing.T) {
	for rate, interval := range map[float64]time.Duration{
		0.001: 1000 * second, 0.01: 100 * second, 0.1: 10 * second, 0.3: 3333333334 * ns, 0.5: 2 * second,
		1: second, 2: second / 2, 3: 333333334 * ns, 5.5: 181818182 * ns, 100: second / 100, 1e12: ns,
	} {
		p := defaultPolicy()
		p.Rate = rate
		e := newEnv(t, p, "a:++++---", map[string]int{"a-4": 0, "a-5": 1})
		e.applies(100*second, "a:-------")
		e.serves(5000 * second)
		e.applies(6000*second, "a:++++---")
		e.serves(6000*second+interval, "a-4")
		e.serves(6000*second+2*interval, "a-5")
	}
}

func TestNext_HandlesTinyRate(t *testing.T) {
	p := defaultPolicy()
	p.Rate = 1e-30
	e := newEnv(t, p, "a:++--", map[string]int{"a-2": 0, "a-3": 1})
	e.starts("a-2")
	if at, ok := e.Next(); !ok || at.Before(after(50*365*24*time.Hour)) {
		t.Errorf("Next() = %v, %v", at, ok)
	}
}

func TestTake_ServesNoneBeforeFirstUpdate(t *testing.T) {
	z := zones.New(defaultPolicy())
	apply(z, "a:+-")
	z.Wait("a-1", start)
	if got := z.Take(start); got != nil {
		t.Errorf("got %q, want none", got)
	}
	z.Update(start)
	if got := z.Take(start); !slices.Equal(got, []string{"a-1"}) {
		t.Errorf("got %q, want a-1", got)
	}
}

func TestAdopt_GivesNoExtraToken(t *testing.T) {
	type of = func(z *zones.Zones)
	adopt := func(last time.Duration) of {
		return func(z *zones.Zones) { z.Adopt(place("a"), after(last), start) }
	}
	stop := func(z *zones.Zones) { z.Stop(place("a"), start) }
	const well, part = "a:++--", "a:+---"
	for _, c := range []struct {
		name  string
		shown layout
		takes []of
		at    time.Duration
	}{
		{"no token spent", well, nil, 0},
		{"token spent just now", well, []of{adopt(0)}, 10 * second},
		{"token spent 3 s ago", well, []of{adopt(-3 * second)}, 7 * second},
		{"zone with the secondary rate", part, []of{adopt(-30 * second)}, 70 * second},
		{"token spent an hour ago", well, []of{adopt(-time.Hour)}, 0},
		{"older token adopted last", well, []of{adopt(-time.Second), adopt(-time.Hour)}, 9 * second},
		{"token spent by a fast clock", well, []of{adopt(time.Hour)}, 10 * second},
		{"empty bucket", well, []of{stop, adopt(-5 * second)}, 10 * second},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, early := range []bool{true, false} {
				p := defaultPolicy()
				p.LargeZone = 3
				z := zones.New(p)
				apply(z, c.shown)
				if early {
					z.Update(start)
				}
				for _, take := range c.takes {
					take(z)
				}
				z.Update(start)
				z.Wait("a-3", after(-time.Minute))
				e := env{t, z}
				switch c.at {
				case 0:
					e.starts("a-3")
				default:
					e.starts()
					e.serves(c.at, "a-3")
				}
			}
		})
	}
}

func TestUpdate_ReturningZoneGainsNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		gone layout
		at   time.Duration
	}{"empty zone": {"a:. b:+", 10 * second}, "all zones stopped": {"a:. b:-", 15 * second}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, defaultPolicy(), "a:- b:+", map[string]int{"a-0": 0})
			e.starts("a-0")
			if name != "empty zone" {
				e.applies(5*second, "b:-") // stops all zones
			}
			e.applies(5*second, c.gone)
			e.applies(6*second, "a:- b:+")
			e.Wait("a-0", after(6*second))
			e.serves(c.at, "a-0")
		})
	}
}

func TestUpdate_DropsVacantZoneWithFullBucket(t *testing.T) {
	e := newEnv(t, defaultPolicy(), "a:- b:+", map[string]int{"a-0": 0})
	e.starts("a-0")
	e.applies(5*second, "a:.")
	e.applies(10*second, "b:+")
	e.GiveBack("a-0", after(11*second)) // of a dropped zone
	e.applies(20*second, "a:-")
	e.Wait("a-0", after(20*second))
	if got := e.Take(after(20 * second)); !slices.Equal(got, []string{"a-0"}) {
		t.Errorf("got %q, want a-0", got)
	}
	e.Wait("a-0", after(20*second))
	e.serves(30*second, "a-0")
}
