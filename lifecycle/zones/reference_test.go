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

// reference is a model of Zones. It stores only the events, and computes every result from all
// nodes, or from all events of a zone.
type reference struct {
	policy   zones.Policy
	nodes    map[string]refNode
	waits    map[string]time.Time
	reported map[model.Place]refState
	log      map[model.Place][]entry
}

type refNode struct {
	place          model.Place
	ready, counted bool
}

type refState struct {
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

func newReference(p zones.Policy) *reference {
	return &reference{p, map[string]refNode{}, map[string]time.Time{}, map[model.Place]refState{}, map[model.Place][]entry{}}
}

// countNodes counts the nodes of all places.
func (ref *reference) countNodes() (ready, unready map[model.Place]int, allFull bool) {
	ready, unready = map[model.Place]int{}, map[model.Place]int{}
	for _, n := range ref.nodes {
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

func (ref *reference) evaluate(ready, unready int, allFull bool) refState {
	size := ready + unready
	v := refState{"Normal", ref.policy.Rate}
	if unready >= 3 && unready*100 >= size*55 {
		v = refState{"PartialDisruption", 0}
		if size > ref.policy.LargeZone {
			v.rate = ref.policy.SecondaryRate
		}
	}
	if ready == 0 && unready > 0 {
		v = refState{"FullDisruption", ref.policy.FullRate}
		if v.rate < 0 {
			v.rate = ref.policy.Rate
		}
	}
	if allFull {
		v.rate = 0
	}
	return v
}

func (ref *reference) update(now time.Time) (lines []string) {
	ready, unready, allFull := ref.countNodes()
	reported := map[model.Place]refState{}
	for _, p := range slices.SortedFunc(maps.Keys(ready), model.Place.Compare) {
		v := ref.evaluate(ready[p], unready[p], allFull)
		if was, known := ref.reported[p]; !known || was != v {
			lines = append(lines, fmt.Sprintf("%s %s %g %v", p, v.state, v.rate, !known))
		}
		reported[p] = v
		ref.log[p] = append(ref.log[p], entry{at: now, rated: true, rate: v.rate})
	}
	for p := range ref.log {
		if _, there := reported[p]; !there && ref.rate(p) == 0 { // a stop ends with its zone
			fastest := max(ref.policy.Rate, ref.policy.SecondaryRate, ref.policy.FullRate)
			ref.log[p] = append(ref.log[p], entry{at: now, rated: true, rate: fastest})
		}
	}
	ref.reported = reported
	return lines
}

// rate returns the last rate set, 0 without one.
func (ref *reference) rate(p model.Place) (rate float64) {
	for _, e := range ref.log[p] {
		if e.rated {
			rate = e.rate
		}
	}
	return rate
}

// token returns the time of a zone's next token, by all its events; the zero time if it has
// been available all along.
func (ref *reference) token(p model.Place) (at time.Time) {
	rate, rated := 0.0, false
	for _, e := range ref.log[p] {
		switch {
		case !e.rated && rated:
			at = later(at, e.at.Add(intervals[rate]))
		case !e.rated: // found empty before a rate was set: applied then
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
func (ref *reference) oldest() map[model.Place]string {
	first := map[model.Place]string{}
	for _, name := range slices.Sorted(maps.Keys(ref.waits)) {
		p := ref.nodes[name].place
		if other, is := first[p]; ref.reported[p].rate > 0 && (!is || ref.waits[name].Before(ref.waits[other])) {
			first[p] = name
		}
	}
	return first
}

func (ref *reference) take(now time.Time) (names []string) {
	first := ref.oldest()
	for _, p := range slices.SortedFunc(maps.Keys(first), model.Place.Compare) {
		if !now.Before(ref.token(p)) {
			names = append(names, first[p])
			delete(ref.waits, first[p])
			ref.finish(first[p])
			ref.log[p] = append(ref.log[p], entry{at: now, node: first[p], spent: true})
		}
	}
	return names
}

// giveBack removes the node's tokens from the log.
func (ref *reference) giveBack(name string) {
	for p := range ref.log {
		ref.log[p] = slices.DeleteFunc(ref.log[p], func(e entry) bool { return e.node == name })
	}
}

// finish records that the writes for a node's tokens have been done.
func (ref *reference) finish(name string) {
	for p := range ref.log {
		for i := range ref.log[p] {
			if ref.log[p][i].node == name {
				ref.log[p][i].node = ""
			}
		}
	}
}

// empty records that a bucket was found empty; spent tokens stay spent.
func (ref *reference) empty(p model.Place, at time.Time) {
	for i := range ref.log[p] {
		ref.log[p][i].node = ""
	}
	ref.log[p] = append(ref.log[p], entry{at: at})
}

func (ref *reference) next() (at time.Time, ok bool) {
	for p := range ref.oldest() {
		if t := ref.token(p); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// checkPace checks the tokens that stayed spent: between two tokens of a zone lies at least the
// time for one, at the rates of that time.
func (ref *reference) checkPace(t *testing.T) {
	t.Helper()
	for p, log := range ref.log {
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

// pair is the zones and their reference, with the same events.
type pair struct {
	*testing.T
	z   *zones.Zones
	ref *reference
	now time.Time
}

func TestZones_MatchReference(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range *timelinesFlag {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		policy := randomPolicy(r)
		t.Run("", func(t *testing.T) {
			c := pair{t, zones.New(policy), newReference(policy), start}
			for step := range 80 {
				c.step(r)
				if t.Failed() {
					t.Fatalf("-seed %d, timeline %d, step %d, %+v", seed, i, step, policy)
				}
			}
			c.ref.checkPace(t)
		})
	}
}

func (c *pair) step(r *rand.Rand) {
	name := fmt.Sprint("n", r.IntN(12))
	p := place(pick(r, "a", "a", "b", "c", "_"))
	switch r.IntN(12) {
	case 0, 1, 2:
		n := refNode{p, r.IntN(2) == 0, r.IntN(6) > 0}
		c.z.Set(name, n.place, n.ready, n.counted)
		c.ref.nodes[name] = n
	case 3:
		if r.IntN(2) == 0 {
			c.z.Remove(name)
			delete(c.ref.nodes, name)
			delete(c.ref.waits, name)
		}
	case 4, 5:
		since := c.now.Add(-time.Duration(r.IntN(5)) * second)
		c.z.Wait(name, since)
		if _, known := c.ref.nodes[name]; known {
			c.ref.waits[name] = since
		}
	case 6:
		c.z.Leave(name)
		delete(c.ref.waits, name)
	case 7:
		c.z.GiveBack(name, c.now)
		c.ref.giveBack(name)
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
	_, reported := c.ref.reported[p]
	ready, _, _ := c.ref.countNodes()
	_, there := ready[p]
	if fresh := there && len(c.ref.log[p]) == 0; !reported && !fresh || r.IntN(4) > 0 {
		return
	}
	if r.IntN(2) == 0 {
		c.z.Stop(p, c.now)
		c.ref.empty(p, c.now)
		return
	}
	c.z.Adopt(p, c.now.Add(second), c.now)
	c.ref.empty(p, c.now)
}

// elapse advances time, sometimes to the exact time of the next token.
func (c *pair) elapse(r *rand.Rand) {
	if at, ok := c.ref.next(); ok && at.After(c.now) && r.IntN(2) == 0 {
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
		if want := c.ref.update(c.now); !slices.Equal(got, want) {
			c.Errorf("Update: got %q, want %q", got, want)
		}
		if _, _, all := c.ref.countNodes(); c.z.AllFull() != all {
			c.Errorf("AllFull: got %v, want %v", !all, all)
		}
	}
	want := c.ref.take(c.now)
	if got := c.z.Take(c.now); !slices.Equal(got, want) {
		c.Errorf("Take at %s: got %q, want %q", c.now.Sub(start), got, want)
	}
}

// compareNext expects the same time, if there is one to wait for.
func (c *pair) compareNext() {
	c.Helper()
	got, ok := c.z.Next()
	want, is := c.ref.next()
	if ok != is || want.After(c.now) && !got.Equal(want) || !want.After(c.now) && got.After(c.now) {
		c.Errorf("Next at %s: got %v, %v, want %v, %v", c.now.Sub(start), got.Sub(start), ok, want.Sub(start), is)
	}
}
