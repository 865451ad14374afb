package zones

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Zones are the zones of a cluster, with counts of their nodes and queues of lost ones. The zero
// value is not usable; see [New].
type Zones struct {
	policy     Policy
	nodes      map[string]node
	zones      map[model.Place]*zone
	created    int                    // number of zones ever created
	counted    int                    // zones with counted nodes
	full       int                    // those of them without a ready node
	wasAllFull bool                   // all of them were full at the last Update
	dirty      []*zone                // changed since the last Update
	vacant     []*zone                // without nodes, stored until their bucket is full
	nextTokens *timerqueue.Queue[int] // zones with waiting nodes and a rate, by their next token
	byID       map[int]*zone
	takers     map[string]*zone // the zone of a node with the last token
}

type node struct {
	zone           *zone
	ready, counted bool
}

type zone struct {
	id             int
	place          model.Place
	nodes          int // including those that do not count
	ready, unready int // of the counted ones
	state          State
	reported       bool // its state was reported to the caller
	dirty, vacant  bool // it is in the list of that name
	bucket         bucket
	taker          string // recipient of its last token; "": none that could return it
	waiting        *timerqueue.Queue[string]
}

// New returns the zones of a cluster without nodes.
func New(p Policy) *Zones {
	return &Zones{
		policy: p, nodes: map[string]node{}, zones: map[model.Place]*zone{},
		nextTokens: timerqueue.New[int](), byID: map[int]*zone{}, takers: map[string]*zone{},
	}
}

// SetPolicy replaces the policy, from the next [Zones.Update] on. Queues stay, and so do tokens that are
// available.
func (z *Zones) SetPolicy(p Policy) {
	if p == z.policy {
		return
	}
	z.policy = p
	for _, s := range z.zones {
		z.mark(s)
	}
}

// Set sets the place of a node, whether its condition Ready is True, and whether it counts for
// its zone. A waiting node that changes zones continues its wait in the new one. It costs O(1)
// except for that.
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
		z.moveWaiting(name, was.zone, is.zone)
	}
}

// Remove removes a node, also from the queue.
func (z *Zones) Remove(name string) {
	z.Leave(name)
	if n, known := z.nodes[name]; known {
		delete(z.nodes, name)
		z.tally(n, -1)
	}
}

// at returns the zone of a place, created if necessary.
func (z *Zones) at(p model.Place) *zone {
	s := z.zones[p]
	if s == nil {
		z.created++
		s = &zone{id: z.created, place: p, waiting: timerqueue.New[string]()}
		z.zones[p], z.byID[s.id] = s, s
		z.mark(s)
	}
	return s
}

// tally adds a node to the counts of its zone, or subtracts it.
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

// census adds a zone to the counts of zones, or subtracts it.
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

// AllFull reports whether every zone with counted nodes is fully disrupted, and there is at least
// one.
func (z *Zones) AllFull() bool { return z.counted > 0 && z.full == z.counted }

// Count returns the numbers of counted nodes of a place, by readiness.
func (z *Zones) Count(p model.Place) (ready, unready int) {
	if s := z.zones[p]; s != nil {
		return s.ready, s.unready
	}
	return 0, 0
}

// State returns the result of the last [Zones.Update] for a place: Normal and 0 for one not
// evaluated by it.
func (z *Zones) State(p model.Place) (state State, rate float64) {
	if s := z.zones[p]; s != nil && s.reported {
		return s.state, s.bucket.rate
	}
	return Normal, 0
}

// Each yields the results of the last [Zones.Update], in the order of places. The arguments size
// and unready are of the counted nodes.
func (z *Zones) Each(yield func(p model.Place, state State, rate float64, size, unready int)) {
	var all []*zone
	for _, s := range z.zones {
		if s.reported {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, byPlace)
	for _, s := range all {
		yield(s.place, s.state, s.bucket.rate, s.ready+s.unready, s.unready)
	}
}

func byPlace(a, b *zone) int { return a.place.Compare(b.place) }

// Update evaluates states and rates by the present counts and returns the changes, in the order
// of places. A zone without nodes has no state: it is not reported, and its evaluation after a
// return is the First. Update costs O(changed zones), and O(zones) when the last zone becomes
// fully disrupted or the first one recovers.
func (z *Zones) Update(now time.Time) (changes []Change) {
	if all := z.AllFull(); all != z.wasAllFull {
		z.wasAllFull = all
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
	z.dropVacant(now)
	slices.SortFunc(changes, func(a, b Change) int { return a.Place.Compare(b.Place) })
	return changes
}

func (z *Zones) evaluate(s *zone, now time.Time) Change {
	c := Change{Place: s.place, WasState: s.state, WasRate: s.bucket.rate, First: !s.reported}
	if c.First {
		c.WasState, c.WasRate = Normal, z.policy.Rate
	}
	c.State = z.policy.state(s.ready, s.unready)
	c.Rate = z.policy.rate(c.State, s.ready+s.unready, z.wasAllFull)
	s.state, s.reported = c.State, true
	s.bucket.set(c.Rate, now)
	if c.Rate == 0 {
		z.clearTaker(s) // a stop leaves no token anyway
	}
	z.updateNextToken(s)
	return c
}

// vacate stores the bucket of a zone that has lost its last node. If the zone returns soon, it has
// no more tokens than without the change. A stop ends with it, and the bucket fills at the
// fastest rate: once full, it can be dropped.
func (z *Zones) vacate(s *zone, now time.Time) {
	s.reported = false
	if s.bucket.rate == 0 {
		s.bucket.set(max(z.policy.Rate, z.policy.SecondaryRate, z.policy.FullRate), now)
	}
	if !s.vacant {
		s.vacant = true
		z.vacant = append(z.vacant, s)
	}
}

// dropVacant drops vacant zones with a full bucket.
func (z *Zones) dropVacant(now time.Time) {
	z.vacant = slices.DeleteFunc(z.vacant, func(s *zone) bool {
		if s.nodes == 0 && s.bucket.rate > 0 && !s.bucket.has(now) {
			return false
		}
		s.vacant = false
		if s.nodes == 0 {
			z.clearTaker(s)
			delete(z.zones, s.place)
			delete(z.byID, s.id)
		}
		return true
	})
}
