package zones

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Wait adds a node to its zone's queue, ordered by the start of its wait, or changes that start.
// A node without a call of [Zones.Set] is ignored.
func (z *Zones) Wait(name string, since time.Time) {
	if n, known := z.nodes[name]; known {
		n.zone.waiting.Set(name, since)
		z.updateNextToken(n.zone)
	}
}

// Leave removes a node from the queue, if it is in it.
func (z *Zones) Leave(name string) {
	if n, known := z.nodes[name]; known && n.zone.waiting.Remove(name) {
		z.updateNextToken(n.zone)
	}
}

// Waiting returns the start of a node's wait, and the number of waiting nodes in its zone, this
// one included. If it does not wait, ok is false.
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

// moveWaiting moves a waiting node from one zone's queue to another's.
func (z *Zones) moveWaiting(name string, from, to *zone) {
	if since, waits := from.waiting.At(name); waits {
		from.waiting.Remove(name)
		to.waiting.Set(name, since)
		z.updateNextToken(from)
		z.updateNextToken(to)
	}
}

// updateNextToken schedules the next token of a zone with waiting nodes and a rate.
func (z *Zones) updateNextToken(s *zone) {
	if s.reported && s.bucket.rate > 0 && s.waiting.Len() > 0 {
		z.nextTokens.Set(s.id, s.bucket.next())
	} else {
		z.nextTokens.Remove(s.id)
	}
}

// Take returns the nodes to be handled now, one for each zone with a token, in the order of
// places. They leave the queue, and their zones spend a token. A zone before its first
// [Zones.Update] has none.
func (z *Zones) Take(now time.Time) (names []string) {
	var due []*zone
	for id, ok := z.nextTokens.Pop(now); ok; id, ok = z.nextTokens.Pop(now) {
		due = append(due, z.byID[id])
	}
	slices.SortFunc(due, byPlace)
	for _, s := range due {
		name, _, _ := s.waiting.Next()
		s.waiting.Remove(name)
		s.bucket.drain(now)
		z.setTaker(s, name)
		z.updateNextToken(s)
		names = append(names, name)
	}
	return names
}

// Next returns when [Zones.Take] may next return a node, perhaps long past. If that depends on a
// call of another method, ok is false.
func (z *Zones) Next() (at time.Time, ok bool) {
	_, at, ok = z.nextTokens.Next()
	return at, ok
}

// TokenOf returns when the next token of a place is available, perhaps long ago, at its present
// rate. Without a rate, or before the first [Zones.Update], ok is false.
func (z *Zones) TokenOf(p model.Place) (at time.Time, ok bool) {
	s := z.zones[p]
	if s == nil || !s.reported || s.bucket.rate <= 0 {
		return time.Time{}, false
	}
	return s.bucket.next(), true
}

// GiveBack returns the token for a node from [Zones.Take] without a write. The node may have
// changed zones or gone since: the token returns to its origin. If another one was spent after
// it, or the zone stopped, nothing is added. The node does not wait again by itself.
func (z *Zones) GiveBack(name string, now time.Time) {
	s := z.takers[name]
	if s == nil {
		return
	}
	z.clearTaker(s)
	s.bucket.refill(now)
	z.updateNextToken(s)
}

// setTaker stores the recipient of a zone's last token.
func (z *Zones) setTaker(s *zone, name string) {
	z.clearTaker(s)
	if other := z.takers[name]; other != nil {
		z.clearTaker(other)
	}
	s.taker, z.takers[name] = name, s
}

// clearTaker records that a zone's last token can not be returned any more.
func (z *Zones) clearTaker(s *zone) {
	if s.taker != "" {
		delete(z.takers, s.taker)
		s.taker = ""
	}
}

// Adopt records, after a change of leader, the last token spent by another one in this zone. A
// time later than now counts as now.
func (z *Zones) Adopt(p model.Place, last, now time.Time) {
	if last.After(now) {
		last = now
	}
	z.drain(p, last)
}

// Stop records, after a change of leader, that the zone had no token until now.
func (z *Zones) Stop(p model.Place, now time.Time) { z.drain(p, now) }

func (z *Zones) drain(p model.Place, at time.Time) {
	s := z.at(p)
	s.bucket.drain(at)
	z.clearTaker(s)
	z.updateNextToken(s)
}
