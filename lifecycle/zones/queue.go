package zones

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Wait puts a node into its zone's queue, to be served by how long it has waited,
// or changes since when it does. A node that was never [Zones.Set] does not wait.
func (z *Zones) Wait(name string, since time.Time) {
	if n, known := z.nodes[name]; known {
		n.zone.waiting.Set(name, since)
		z.turn(n.zone)
	}
}

// Leave takes a node out of the queue, if it is in it.
func (z *Zones) Leave(name string) {
	if n, known := z.nodes[name]; known && n.zone.waiting.Remove(name) {
		z.turn(n.zone)
	}
}

// Waiting is since when a node waits, and how many wait in its zone, it included;
// ok is false if it does not.
func (z *Zones) Waiting(name string) (since time.Time, of int, ok bool) {
	n, known := z.nodes[name]
	if !known {
		return since, 0, false
	}
	if since, ok = n.zone.waiting.At(name); !ok {
		return since, 0, false
	}
	return since, n.zone.waiting.Len(), true
}

// follow moves a node that waits from one zone's queue into another's.
func (z *Zones) follow(name string, from, to *zone) {
	if since, waits := from.waiting.At(name); waits {
		from.waiting.Remove(name)
		to.waiting.Set(name, since)
		z.turn(from)
		z.turn(to)
	}
}

// turn keeps a zone in its place among those that have nodes waiting and will
// have a token.
func (z *Zones) turn(s *zone) {
	if s.told && s.bucket.rate > 0 && s.waiting.Len() > 0 {
		z.turns.Set(s.id, s.bucket.next())
	} else {
		z.turns.Remove(s.id)
	}
}

// Take returns the nodes whose turn it is, one for each zone that has a token, in
// the order of places. They leave the queue, and their zones have spent a token.
// A zone that [Zones.Update] has not seen yet has none.
func (z *Zones) Take(now time.Time) (names []string) {
	var due []*zone
	for id, ok := z.turns.Pop(now); ok; id, ok = z.turns.Pop(now) {
		due = append(due, z.byID[id])
	}
	slices.SortFunc(due, byPlace)
	for _, s := range due {
		name, _, _ := s.waiting.Next()
		s.waiting.Remove(name)
		s.bucket.drain(now)
		z.hand(s, name)
		z.turn(s)
		names = append(names, name)
	}
	return names
}

// Next is when [Zones.Take] could next return something, perhaps long past; ok is
// false if only a call of another method can change that it returns nothing.
func (z *Zones) Next() (at time.Time, ok bool) {
	_, at, ok = z.turns.Next()
	return at, ok
}

// TokenOf is when the next token of a place is there, perhaps long ago, if its
// rate stays as it is; ok is false for one that has no rate, or was not seen yet.
func (z *Zones) TokenOf(p model.Place) (at time.Time, ok bool) {
	s := z.zones[p]
	if s == nil || !s.told || s.bucket.rate <= 0 {
		return time.Time{}, false
	}
	return s.bucket.next(), true
}

// GiveBack says that nothing was written for a node that [Zones.Take] returned,
// which may have changed zones or gone since: the token is there again where it
// came from. Where another was spent after it, or the zone stopped, it is as if
// this one had never been: that adds nothing. The node does not wait again by
// itself.
func (z *Zones) GiveBack(name string, now time.Time) {
	s := z.takers[name]
	if s == nil {
		return
	}
	z.keep(s)
	s.bucket.refill(now)
	z.turn(s)
}

// hand remembers who has a zone's last token.
func (z *Zones) hand(s *zone, name string) {
	z.keep(s)
	if other := z.takers[name]; other != nil {
		z.keep(other)
	}
	s.taker, z.takers[name] = name, s
}

// keep says that a zone's last token does not come back any more.
func (z *Zones) keep(s *zone) {
	if s.taker != "" {
		delete(z.takers, s.taker)
		s.taker = ""
	}
}

// Adopt says, after a change of leader, that another has spent a token of this
// zone at last; one that is later than now is of now.
func (z *Zones) Adopt(p model.Place, last, now time.Time) {
	if last.After(now) {
		last = now
	}
	z.drain(p, last)
}

// Stop says, after a change of leader, that the zone had no token until now.
func (z *Zones) Stop(p model.Place, now time.Time) { z.drain(p, now) }

func (z *Zones) drain(p model.Place, at time.Time) {
	s := z.at(p)
	s.bucket.drain(at)
	z.keep(s)
	z.turn(s)
}
