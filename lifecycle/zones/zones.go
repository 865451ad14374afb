package zones

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Zones are the zones of a cluster, with their nodes counted and those that wait
// for a turn. The zero value is not usable; see [New].
type Zones struct {
	policy  Policy
	nodes   map[string]node
	zones   map[model.Place]*zone
	born    int                    // how many zones there ever were
	counted int                    // zones with nodes that count
	full    int                    // those among them without a ready one
	wereAll bool                   // all of them were, at the last Update
	dirty   []*zone                // changed since the last Update
	vacant  []*zone                // without nodes, kept until their bucket is full
	turns   *timerqueue.Queue[int] // zones with nodes that wait and a rate, by their next token
	byID    map[int]*zone
	takers  map[string]*zone // the zone of which a node has the last token
}

type node struct {
	zone           *zone
	ready, counted bool
}

type zone struct {
	id             int
	place          model.Place
	nodes          int // those that do not count included
	ready, unready int // those that count
	state          State
	told           bool // its state is known to the caller
	dirty, vacant  bool // it is in the list of that name
	bucket         bucket
	taker          string // who has its last token; "": nobody who could give it back
	waiting        *timerqueue.Queue[string]
}

// New makes the zones of a cluster without nodes.
func New(p Policy) *Zones {
	return &Zones{
		policy: p, nodes: map[string]node{}, zones: map[model.Place]*zone{},
		turns: timerqueue.New[int](), byID: map[int]*zone{}, takers: map[string]*zone{},
	}
}

// Set says where a node is, whether its condition Ready is True, and whether it
// counts for its zone. A node that waits and changes zones waits on in the new
// one. O(1) but for that.
func (z *Zones) Set(name string, p model.Place, ready, counted bool) {
	was, known := z.nodes[name]
	if known && was.ready == ready && was.counted == counted && was.zone.place == p {
		return
	}
	is := node{z.at(p), ready, counted}
	z.nodes[name] = is
	z.tally(is, +1)
	if !known {
		return
	}
	z.tally(was, -1)
	if was.zone != is.zone {
		z.follow(name, was.zone, is.zone)
	}
}

// Remove forgets a node, in the queue as well.
func (z *Zones) Remove(name string) {
	z.Leave(name)
	if n, known := z.nodes[name]; known {
		delete(z.nodes, name)
		z.tally(n, -1)
	}
}

// at is the zone of a place, made if need be.
func (z *Zones) at(p model.Place) *zone {
	s := z.zones[p]
	if s == nil {
		z.born++
		s = &zone{id: z.born, place: p, waiting: timerqueue.New[string]()}
		z.zones[p], z.byID[s.id] = s, s
		z.mark(s)
	}
	return s
}

// tally counts a node in or out.
func (z *Zones) tally(n node, by int) {
	s := n.zone
	s.nodes += by
	z.mark(s)
	if !n.counted {
		return
	}
	z.census(s, -1)
	if n.ready {
		s.ready += by
	} else {
		s.unready += by
	}
	z.census(s, +1)
}

// census counts a zone in or out.
func (z *Zones) census(s *zone, by int) {
	if s.ready+s.unready == 0 {
		return
	}
	z.counted += by
	if s.ready == 0 {
		z.full += by
	}
}

func (z *Zones) mark(s *zone) {
	if !s.dirty {
		s.dirty = true
		z.dirty = append(z.dirty, s)
	}
}

// AllFull reports whether every zone that has nodes which count is fully
// disrupted, and there is one.
func (z *Zones) AllFull() bool { return z.counted > 0 && z.full == z.counted }

// Count is how many nodes of a place count, by whether they are ready.
func (z *Zones) Count(p model.Place) (ready, unready int) {
	if s := z.zones[p]; s != nil {
		return s.ready, s.unready
	}
	return 0, 0
}

// State is what the last [Zones.Update] found for a place: Normal and 0 for one
// that it did not see.
func (z *Zones) State(p model.Place) (state State, rate float64) {
	if s := z.zones[p]; s != nil && s.told {
		return s.state, s.bucket.rate
	}
	return Normal, 0
}

// Each hands over what the last [Zones.Update] found, in the order of places:
// size and unready are of the nodes that count.
func (z *Zones) Each(yield func(p model.Place, state State, rate float64, size, unready int)) {
	var all []*zone
	for _, s := range z.zones {
		if s.told {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, byPlace)
	for _, s := range all {
		yield(s.place, s.state, s.bucket.rate, s.ready+s.unready, s.unready)
	}
}

func byPlace(a, b *zone) int { return a.place.Compare(b.place) }

// Update finds states and rates by the present counts and returns what changed,
// in the order of places. A zone without any node has no state: it is not told
// of, and is looked at for the first time when it comes back. O(zones that
// changed), O(zones) when the last zone falls or the first one recovers.
func (z *Zones) Update(now time.Time) (changes []Change) {
	if all := z.AllFull(); all != z.wereAll {
		z.wereAll = all
		for _, s := range z.zones {
			z.mark(s)
		}
	}
	for _, s := range z.dirty {
		s.dirty = false
		if s.nodes == 0 {
			z.vacate(s, now)
			continue
		}
		if c := z.evaluate(s, now); c.First || c.State != c.WasState || c.Rate != c.WasRate {
			changes = append(changes, c)
		}
	}
	z.dirty = z.dirty[:0]
	z.raze(now)
	slices.SortFunc(changes, func(a, b Change) int { return a.Place.Compare(b.Place) })
	return changes
}

func (z *Zones) evaluate(s *zone, now time.Time) Change {
	c := Change{Place: s.place, WasState: s.state, WasRate: s.bucket.rate, First: !s.told}
	if c.First {
		c.WasState, c.WasRate = Normal, z.policy.Rate
	}
	c.State = z.policy.state(s.ready, s.unready)
	c.Rate = z.policy.rate(c.State, s.ready+s.unready, z.wereAll)
	s.state, s.told = c.State, true
	s.bucket.set(c.Rate, now)
	if c.Rate == 0 {
		z.keep(s) // there will be none after a stop anyway
	}
	z.turn(s)
	return c
}

// vacate keeps the bucket of a zone that has lost its last node: if it comes
// back soon, it has no more tokens than if it had stayed. A stop ends with it,
// and so it fills at the fastest rate that there is: then it can be forgotten.
func (z *Zones) vacate(s *zone, now time.Time) {
	s.told = false
	if s.bucket.rate == 0 {
		s.bucket.set(max(z.policy.Rate, z.policy.SecondaryRate, z.policy.FullRate), now)
	}
	if !s.vacant {
		s.vacant = true
		z.vacant = append(z.vacant, s)
	}
}

// raze forgets vacant zones that are as good as new.
func (z *Zones) raze(now time.Time) {
	z.vacant = slices.DeleteFunc(z.vacant, func(s *zone) bool {
		if s.nodes == 0 && s.bucket.rate > 0 && !s.bucket.has(now) {
			return false
		}
		s.vacant = false
		if s.nodes == 0 {
			z.keep(s)
			delete(z.zones, s.place)
			delete(z.byID, s.id)
		}
		return true
	})
}
