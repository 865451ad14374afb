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

// line is a cluster with waiting nodes, and the tokens that each of them got.
type line struct {
	*testing.T
	*zones.Zones
}

// queue makes a cluster in which the nodes wait, each since the given number of seconds after
// the start.
func queue(t *testing.T, p zones.Policy, shown picture, since map[string]int) line {
	z := zones.New(p)
	show(z, shown)
	z.Update(start)
	for name, s := range since {
		z.Wait(name, after(time.Duration(s)*second))
	}
	return line{t, z}
}

// serves expects these nodes to be served at that time, and none a nanosecond before.
func (l line) serves(at time.Duration, want ...string) {
	l.Helper()
	if got := l.Take(after(at - ns)); got != nil {
		l.Fatalf("a nanosecond before %s: %q", at, got)
	}
	if next, ok := l.Next(); len(want) > 0 && (!ok || next.After(after(at))) {
		l.Fatalf("at %s there will be somebody, but next is %v, %v", at, next, ok)
	}
	if got := l.Take(after(at)); !slices.Equal(got, want) {
		l.Fatalf("at %s: %q instead of %q", at, got, want)
	}
}

// starts is serves for full buckets.
func (l line) starts(want ...string) {
	l.Helper()
	if got := l.Take(start); !slices.Equal(got, want) {
		l.Fatalf("at the start: %q instead of %q", got, want)
	}
}

func (l line) shows(at time.Duration, p picture) {
	show(l.Zones, p)
	l.Update(after(at))
}

func TestWhoHasWaitedLongestGoesFirst(t *testing.T) {
	l := queue(t, usual(), "a:+++---", map[string]int{"a-3": -1, "a-4": -3, "a-5": -2})
	l.starts("a-4")
	l.serves(10*second, "a-5")
	l.serves(20*second, "a-3")
	l.serves(30 * second)
	if at, ok := l.Next(); ok {
		t.Errorf("nobody waits, but next is %v", at)
	}
}

func TestEqualAgesByName(t *testing.T) {
	l := queue(t, usual(), "a:+++---", map[string]int{"a-5": 0, "a-3": 0, "a-4": 0})
	l.starts("a-3")
	l.serves(10*second, "a-4")
	l.serves(20*second, "a-5")
}

func TestANodeWaitsOnceAndMayAgain(t *testing.T) {
	l := queue(t, usual(), "a:+++---", map[string]int{"a-3": -5, "a-4": -4})
	l.Wait("a-3", after(-3*second)) // younger than before: a-4 precedes it now
	l.starts("a-4")
	l.serves(10*second, "a-3")
	l.serves(20 * second)
	l.Wait("a-3", after(20*second)) // a served node waits only if it joins again
	if got := l.Take(after(20 * second)); !slices.Equal(got, []string{"a-3"}) {
		t.Errorf("served %q", got)
	}
	l.Wait("stranger", start)
	l.serves(30 * second)
}

func TestWhoLeavesCostsNothing(t *testing.T) {
	for _, c := range []struct{ leaves, first, second string }{
		{"a-3", "a-4", "a-5"}, {"a-4", "a-3", "a-5"}, {"a-5", "a-3", "a-4"},
	} {
		for name, leave := range map[string]func(line){
			"recovers":   func(l line) { l.Leave(c.leaves) },
			"is deleted": func(l line) { l.Remove(c.leaves) },
		} {
			l := queue(t, usual(), "a:+++---", map[string]int{"a-3": -3, "a-4": -2, "a-5": -1})
			leave(l)
			leave(l)
			if _, _, waits := l.Waiting(c.leaves); waits {
				t.Errorf("%s %s and waits", c.leaves, name)
			}
			l.starts(c.first)
			l.serves(10*second, c.second)
			l.serves(20 * second)
		}
	}
}

func TestEachZoneHasItsOwnTokens(t *testing.T) {
	l := queue(t, usual(), "b:+-- a:+-- _:+-", map[string]int{"a-1": 0, "a-2": 1, "b-1": 0, "b-2": -1, "_-1": 3})
	l.starts("_-1", "a-1", "b-2")
	l.serves(10*second, "a-2", "b-1")
}

func TestANodeThatMovesWaitsOn(t *testing.T) {
	l := queue(t, usual(), "a:+-- b:+-", map[string]int{"a-1": -9, "a-2": -8, "b-1": -7})
	l.Set("a-1", place("b"), false, true)
	since, of, ok := l.Waiting("a-1")
	if !ok || of != 2 || !since.Equal(after(-9*second)) {
		t.Errorf("it waits since %v with %d, %v", since, of, ok)
	}
	l.Update(start)
	l.starts("a-2", "a-1")
	l.serves(10*second, "b-1")
}

func TestWhoDoesNotCountWaitsAllTheSame(t *testing.T) {
	l := queue(t, usual(), "a:+x", map[string]int{"a-1": 0})
	l.starts("a-1")
}

func TestATokenIsNeverSavedUp(t *testing.T) {
	l := queue(t, usual(), "a:++++---", map[string]int{"a-4": 0})
	l.starts("a-4")
	l.Wait("a-5", after(500*second))
	l.Wait("a-6", after(501*second))
	if got := l.Take(after(600 * second)); !slices.Equal(got, []string{"a-5"}) {
		t.Fatalf("served %q", got)
	}
	l.serves(610*second, "a-6")
}

func TestGivenBack(t *testing.T) {
	l := queue(t, usual(), "a:++++---", map[string]int{"a-4": 0, "a-5": 1, "a-6": 2})
	l.starts("a-4")
	l.GiveBack("a-4", after(3*second))
	l.GiveBack("a-4", after(3*second)) // once is enough
	if next, ok := l.Next(); !ok || next.After(after(3*second)) {
		t.Errorf("the token is there again, but next is %v, %v", next, ok)
	}
	if got := l.Take(after(3 * second)); !slices.Equal(got, []string{"a-5"}) {
		t.Fatalf("served %q", got)
	}
	l.GiveBack("a-4", after(4*second)) // a-4 has no token any more
	l.serves(13*second, "a-6")
}

func TestGivenBackTooLateAddsNothing(t *testing.T) {
	l := queue(t, usual(), "a:++++---", map[string]int{"a-4": 0, "a-5": 1, "a-6": 2})
	l.starts("a-4")
	l.serves(10*second, "a-5")
	l.GiveBack("a-4", after(12*second)) // without a-4 there would have been one at 10s and the next at 20s
	l.serves(20*second, "a-6")
}

func TestGivenBackByWhoIsGone(t *testing.T) {
	l := queue(t, usual(), "a:++++--- b:+", map[string]int{"a-4": 0, "a-5": 1, "a-6": 2})
	l.starts("a-4")
	l.Remove("a-4")
	l.GiveBack("a-4", after(second))
	if got := l.Take(after(second)); !slices.Equal(got, []string{"a-5"}) {
		t.Fatalf("served %q", got)
	}
	l.Set("a-5", place("b"), false, true)
	l.GiveBack("a-5", after(2*second))
	if got := l.Take(after(2 * second)); !slices.Equal(got, []string{"a-6"}) {
		t.Fatalf("served %q", got)
	}
}

func TestGivenBackAfterAStopIsLost(t *testing.T) {
	l := queue(t, usual(), "a:+++--", map[string]int{"a-3": 0, "a-4": 1})
	l.starts("a-3")
	l.shows(second, "a:-----")
	l.GiveBack("a-3", after(2*second))
	l.shows(3*second, "a:+++--")
	l.serves(13*second, "a-4")
}

// TestWhenTheRateChanges leads one zone through all of its rates: healthy, partially disrupted,
// and fully disrupted beside a healthy one.
func TestWhenTheRateChanges(t *testing.T) {
	p := zones.Policy{Rate: 0.1, SecondaryRate: 0.01, FullRate: 0.5, LargeZone: 3, Unhealthy: 0.55}
	const well, part, lost = "a:++-- b:+", "a:+--- b:+", "a:---- b:+"
	waiting := map[string]int{"a-3": 0, "a-2": 1}
	t.Run("what was on its way is lost", func(t *testing.T) {
		l := queue(t, p, well, waiting)
		l.starts("a-3")
		l.shows(9*second, part)
		l.serves(109*second, "a-2")
	})
	t.Run("also when it gets faster", func(t *testing.T) {
		l := queue(t, p, well, waiting)
		l.starts("a-3")
		l.shows(9*second, lost)
		l.serves(11*second, "a-2")
	})
	t.Run("a token that is there stays", func(t *testing.T) {
		l := queue(t, p, well, map[string]int{"a-3": 0})
		l.starts("a-3")
		l.shows(10*second, part)
		l.Wait("a-2", after(10*second))
		if got := l.Take(after(10 * second)); !slices.Equal(got, []string{"a-2"}) {
			t.Fatalf("served %q", got)
		}
	})
	t.Run("the same rate in another state changes nothing", func(t *testing.T) {
		q := p
		q.FullRate = -1
		l := queue(t, q, well, waiting)
		l.starts("a-3")
		l.shows(9*second, lost)
		l.serves(10*second, "a-2")
	})
	t.Run("a stop takes the token that was there", func(t *testing.T) {
		l := queue(t, p, well, map[string]int{"a-3": 0})
		l.shows(20*second, "a:---- b:-")
		if _, ok := l.Next(); ok {
			t.Error("stopped, but somebody is next")
		}
		l.shows(30*second, well)
		l.serves(40*second, "a-3")
	})
}

func TestEveryRateResumesAfterAStop(t *testing.T) {
	for rate, interval := range map[float64]time.Duration{
		0.001: 1000 * second, 0.01: 100 * second, 0.1: 10 * second, 0.3: 3333333334 * ns, 0.5: 2 * second,
		1: second, 2: second / 2, 3: 333333334 * ns, 5.5: 181818182 * ns, 100: second / 100, 1e12: ns,
	} {
		p := usual()
		p.Rate = rate
		l := queue(t, p, "a:++++---", map[string]int{"a-4": 0, "a-5": 1})
		l.shows(100*second, "a:-------")
		l.serves(5000 * second)
		l.shows(6000*second, "a:++++---")
		l.serves(6000*second+interval, "a-4")
		l.serves(6000*second+2*interval, "a-5")
	}
}

func TestARateThatIsHardlyOne(t *testing.T) {
	p := usual()
	p.Rate = 1e-30
	l := queue(t, p, "a:++--", map[string]int{"a-2": 0, "a-3": 1})
	l.starts("a-2")
	if at, ok := l.Next(); !ok || at.Before(after(50*365*24*time.Hour)) {
		t.Errorf("next is %v, %v", at, ok)
	}
}

func TestBeforeTheFirstUpdateNobodyIsServed(t *testing.T) {
	z := zones.New(usual())
	show(z, "a:+-")
	z.Wait("a-1", start)
	if got := z.Take(start); got != nil {
		t.Errorf("served %q", got)
	}
	z.Update(start)
	if got := z.Take(start); !slices.Equal(got, []string{"a-1"}) {
		t.Errorf("served %q", got)
	}
}

func TestTakeoverGivesNoExtraToken(t *testing.T) {
	type of = func(z *zones.Zones)
	adopt := func(last time.Duration) of {
		return func(z *zones.Zones) { z.Adopt(place("a"), after(last), start) }
	}
	stop := func(z *zones.Zones) { z.Stop(place("a"), start) }
	const well, part = "a:++--", "a:+---"
	for _, c := range []struct {
		name  string
		shown picture
		takes []of
		at    time.Duration
	}{
		{"nothing was spent", well, nil, 0},
		{"just now", well, []of{adopt(0)}, 10 * second},
		{"a while ago", well, []of{adopt(-3 * second)}, 7 * second},
		{"at the zone's own rate", part, []of{adopt(-30 * second)}, 70 * second},
		{"long ago", well, []of{adopt(-time.Hour)}, 0},
		{"what is older says nothing new", well, []of{adopt(-time.Second), adopt(-time.Hour)}, 9 * second},
		{"by a clock that is ahead", well, []of{adopt(time.Hour)}, 10 * second},
		{"it had none", well, []of{stop, adopt(-5 * second)}, 10 * second},
	} {
		for _, early := range []bool{true, false} {
			p := usual()
			p.LargeZone = 3
			z := zones.New(p)
			show(z, c.shown)
			if early {
				z.Update(start)
			}
			for _, take := range c.takes {
				take(z)
			}
			z.Update(start)
			z.Wait("a-3", after(-time.Minute))
			l := line{t, z}
			switch c.at {
			case 0:
				l.starts("a-3")
			default:
				l.starts()
				l.serves(c.at, "a-3")
			}
		}
	}
}

func TestAZoneThatComesBackGainsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		gone picture
		at   time.Duration
	}{"it alone": {"a:. b:+", 10 * second}, "when all is stopped": {"a:. b:-", 15 * second}} {
		t.Run(name, func(t *testing.T) {
			l := queue(t, usual(), "a:- b:+", map[string]int{"a-0": 0})
			l.starts("a-0")
			if name != "it alone" {
				l.shows(5*second, "b:-") // a stop; the zone is its first victim
			}
			l.shows(5*second, c.gone)
			l.shows(6*second, "a:- b:+")
			l.Wait("a-0", after(6*second))
			l.serves(c.at, "a-0")
		})
	}
}

func TestAZoneIsForgottenInTheEnd(t *testing.T) {
	l := queue(t, usual(), "a:- b:+", map[string]int{"a-0": 0})
	l.starts("a-0")
	l.shows(5*second, "a:.")
	l.shows(10*second, "b:+")
	l.GiveBack("a-0", after(11*second)) // of a zone that no longer exists
	l.shows(20*second, "a:-")
	l.Wait("a-0", after(20*second))
	if got := l.Take(after(20 * second)); !slices.Equal(got, []string{"a-0"}) {
		t.Errorf("served %q", got)
	}
	l.Wait("a-0", after(20*second))
	l.serves(30*second, "a-0")
}
