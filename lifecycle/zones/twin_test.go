package zones_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "seed of the random timelines; 0 draws one")
	timelinesFlag = flag.Int("timelines", 3000, "number of random timelines")
)

// intervals of the rates in timelines, computed by hand.
var intervals = map[float64]time.Duration{
	0.01: 100 * second, 0.1: 10 * second, 0.3: 3333333334 * ns, 0.5: 2 * second, 1: second, 7: 142857143 * ns,
}

// twin is the reference model. It stores only the events, and answers every query by going
// through all nodes, or through all events of a zone.
type twin struct {
	policy zones.Policy
	nodes  map[string]twinNode
	waits  map[string]time.Time
	told   map[model.Place]twinVerdict
	log    map[model.Place][]entry
}

type twinNode struct {
	place          model.Place
	ready, counted bool
}

type twinVerdict struct {
	state string
	rate  float64
}

// entry is an event of a bucket: a rate was set, a token was spent on a node, or the bucket was
// found empty.
type entry struct {
	at    time.Time
	rated bool
	rate  float64
	node  string // "": no node can return it
	spent bool
}

func newTwin(p zones.Policy) *twin {
	return &twin{p, map[string]twinNode{}, map[string]time.Time{}, map[model.Place]twinVerdict{}, map[model.Place][]entry{}}
}

// survey counts the nodes of all places.
func (w *twin) survey() (ready, unready map[model.Place]int, allFull bool) {
	ready, unready = map[model.Place]int{}, map[model.Place]int{}
	for _, n := range w.nodes {
		switch {
		case !n.counted:
			ready[n.place] += 0
		case n.ready:
			ready[n.place]++
		default:
			ready[n.place] += 0
			unready[n.place]++
		}
	}
	full, some := 0, 0
	for p := range ready {
		if ready[p]+unready[p] > 0 {
			some++
		}
		if ready[p] == 0 && unready[p] > 0 {
			full++
		}
	}
	return ready, unready, some > 0 && full == some
}

func (w *twin) verdict(ready, unready int, allFull bool) twinVerdict {
	size := ready + unready
	v := twinVerdict{"Normal", w.policy.Rate}
	if unready >= 3 && unready*100 >= size*55 {
		v = twinVerdict{"PartialDisruption", 0}
		if size > w.policy.LargeZone {
			v.rate = w.policy.SecondaryRate
		}
	}
	if ready == 0 && unready > 0 {
		v = twinVerdict{"FullDisruption", w.policy.FullRate}
		if v.rate < 0 {
			v.rate = w.policy.Rate
		}
	}
	if allFull {
		v.rate = 0
	}
	return v
}

func (w *twin) update(now time.Time) (lines []string) {
	ready, unready, allFull := w.survey()
	told := map[model.Place]twinVerdict{}
	for _, p := range slices.SortedFunc(maps.Keys(ready), model.Place.Compare) {
		v := w.verdict(ready[p], unready[p], allFull)
		if was, known := w.told[p]; !known || was != v {
			lines = append(lines, fmt.Sprintf("%s %s %g %v", p, v.state, v.rate, !known))
		}
		told[p] = v
		w.log[p] = append(w.log[p], entry{at: now, rated: true, rate: v.rate})
	}
	for p := range w.log {
		if _, there := told[p]; !there && w.rate(p) == 0 { // a stop ends with its zone
			fastest := max(w.policy.Rate, w.policy.SecondaryRate, w.policy.FullRate)
			w.log[p] = append(w.log[p], entry{at: now, rated: true, rate: fastest})
		}
	}
	w.told = told
	return lines
}

// rate returns the last rate set, 0 without one.
func (w *twin) rate(p model.Place) (rate float64) {
	for _, e := range w.log[p] {
		if e.rated {
			rate = e.rate
		}
	}
	return rate
}

// token returns the time of a zone's next token, by all its events; the zero time if it has
// been available all along.
func (w *twin) token(p model.Place) (at time.Time) {
	rate, rated := 0.0, false
	for _, e := range w.log[p] {
		switch {
		case !e.rated && rated:
			at = later(at, e.at.Add(intervals[rate]))
		case !e.rated: // found empty before a rate was set: kept until then
			at = later(at, e.at)
		case !rated && !at.IsZero():
			at, rate, rated = at.Add(intervals[e.rate]), e.rate, true
		case !rated:
			rate, rated = e.rate, true
		case e.rate == rate:
		case rate > 0 && !e.at.Before(at):
			at, rate = time.Time{}, e.rate
		default:
			at, rate = e.at.Add(intervals[e.rate]), e.rate
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// oldest returns the longest waiting node of each zone with tokens.
func (w *twin) oldest() map[model.Place]string {
	first := map[model.Place]string{}
	for _, name := range slices.Sorted(maps.Keys(w.waits)) {
		p := w.nodes[name].place
		if other, is := first[p]; w.told[p].rate > 0 && (!is || w.waits[name].Before(w.waits[other])) {
			first[p] = name
		}
	}
	return first
}

func (w *twin) take(now time.Time) (names []string) {
	first := w.oldest()
	for _, p := range slices.SortedFunc(maps.Keys(first), model.Place.Compare) {
		if !now.Before(w.token(p)) {
			names = append(names, first[p])
			delete(w.waits, first[p])
			w.finish(first[p])
			w.log[p] = append(w.log[p], entry{at: now, node: first[p], spent: true})
		}
	}
	return names
}

// giveBack removes the node's tokens from the log.
func (w *twin) giveBack(name string) {
	for p := range w.log {
		w.log[p] = slices.DeleteFunc(w.log[p], func(e entry) bool { return e.node == name })
	}
}

// finish records that the writes for a node's tokens have been done.
func (w *twin) finish(name string) {
	for p := range w.log {
		for i := range w.log[p] {
			if w.log[p][i].node == name {
				w.log[p][i].node = ""
			}
		}
	}
}

// empty records that a bucket was found empty; spent tokens stay spent.
func (w *twin) empty(p model.Place, at time.Time) {
	for i := range w.log[p] {
		w.log[p][i].node = ""
	}
	w.log[p] = append(w.log[p], entry{at: at})
}

func (w *twin) next() (at time.Time, ok bool) {
	for p := range w.oldest() {
		if t := w.token(p); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// checkPace checks the tokens that stayed spent: between two tokens of a zone lies at least the
// time for one, at the rates of that time.
func (w *twin) checkPace(t *testing.T) {
	t.Helper()
	for p, log := range w.log {
		gained, rate, first := 0.0, 0.0, true
		var last time.Time
		for _, e := range log {
			gained += rate * e.at.Sub(last).Seconds()
			last = e.at
			switch {
			case e.rated:
				rate = e.rate
			case e.spent && !first && gained < 1-1e-9:
				t.Fatalf("%s spent a token at %s after only %.9f of one", p, e.at.Sub(start), gained)
			}
			if e.spent {
				gained, first = 0, false
			}
		}
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomPolicy(r *rand.Rand) zones.Policy {
	return zones.Policy{
		Rate: pick(r, 0, 0.1, 0.1, 0.3, 1, 7), SecondaryRate: pick(r, 0, 0.01, 0.1, 1),
		FullRate: pick(r, -1, -1, 0, 0.1, 0.5), LargeZone: r.IntN(6), Unhealthy: 0.55,
	}
}

// pair is the zones and their twin, with the same events.
type pair struct {
	*testing.T
	z   *zones.Zones
	w   *twin
	now time.Time
}

func TestZonesAreTheirNaiveTwin(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range *timelinesFlag {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		policy := randomPolicy(r)
		t.Run("", func(t *testing.T) {
			c := pair{t, zones.New(policy), newTwin(policy), start}
			for step := range 80 {
				c.step(r)
				if t.Failed() {
					t.Fatalf("-seed %d, timeline %d, step %d, %+v", seed, i, step, policy)
				}
			}
			c.w.checkPace(t)
		})
	}
}

func (c *pair) step(r *rand.Rand) {
	name := fmt.Sprint("n", r.IntN(12))
	p := place(pick(r, "a", "a", "b", "c", "_"))
	switch r.IntN(12) {
	case 0, 1, 2:
		n := twinNode{p, r.IntN(2) == 0, r.IntN(6) > 0}
		c.z.Set(name, n.place, n.ready, n.counted)
		c.w.nodes[name] = n
	case 3:
		if r.IntN(2) == 0 {
			c.z.Remove(name)
			delete(c.w.nodes, name)
			delete(c.w.waits, name)
		}
	case 4, 5:
		since := c.now.Add(-time.Duration(r.IntN(5)) * second)
		c.z.Wait(name, since)
		if _, known := c.w.nodes[name]; known {
			c.w.waits[name] = since
		}
	case 6:
		c.z.Leave(name)
		delete(c.w.waits, name)
	case 7:
		c.z.GiveBack(name, c.now)
		c.w.giveBack(name)
	case 8:
		c.takeOver(r, p)
	default:
		c.elapse(r)
		c.decide(r)
	}
	c.compareNext()
}

// takeOver records tokens spent by another leader, or an empty bucket.
func (c *pair) takeOver(r *rand.Rand, p model.Place) {
	_, told := c.w.told[p]
	ready, _, _ := c.w.survey()
	_, there := ready[p]
	if fresh := there && len(c.w.log[p]) == 0; !told && !fresh || r.IntN(4) > 0 {
		return
	}
	if r.IntN(2) == 0 {
		c.z.Stop(p, c.now)
		c.w.empty(p, c.now)
		return
	}
	c.z.Adopt(p, c.now.Add(second), c.now)
	c.w.empty(p, c.now)
}

// elapse advances time, sometimes to the exact time of the next token.
func (c *pair) elapse(r *rand.Rand) {
	if at, ok := c.w.next(); ok && at.After(c.now) && r.IntN(2) == 0 {
		c.now = at.Add(pick(r, 0, -1*ns))
		return
	}
	c.now = c.now.Add(pick(r, 0, ns, 100*time.Millisecond, second, 7*second, 10*second, 100*second))
}

func (c *pair) decide(r *rand.Rand) {
	c.Helper()
	if r.IntN(8) > 0 {
		var got []string
		for _, change := range c.z.Update(c.now) {
			got = append(got, fmt.Sprintf("%s %s %g %v", change.Place, change.State, change.Rate, change.First))
		}
		if want := c.w.update(c.now); !slices.Equal(got, want) {
			c.Errorf("told %q instead of %q", got, want)
		}
		if _, _, all := c.w.survey(); c.z.AllFull() != all {
			c.Errorf("all full: %v", !all)
		}
	}
	want := c.w.take(c.now)
	if got := c.z.Take(c.now); !slices.Equal(got, want) {
		c.Errorf("at %s served %q instead of %q", c.now.Sub(start), got, want)
	}
}

// compareNext expects the same time, if there is one to wait for.
func (c *pair) compareNext() {
	c.Helper()
	got, ok := c.z.Next()
	want, is := c.w.next()
	if ok != is || want.After(c.now) && !got.Equal(want) || !want.After(c.now) && got.After(c.now) {
		c.Errorf("at %s next is %v, %v instead of %v, %v", c.now.Sub(start), got.Sub(start), ok, want.Sub(start), is)
	}
}
