package why

import (
	"math"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/ranking"
)

// Change is a change of the pod with which another pod would have been evicted first.
type Change struct {
	What Figure `json:"what"`
	From int64  `json:"from"`
	To   int64  `json:"to"` // the number nearest to From that suffices; bytes are rounded away from From
}

// Figure is a figure of a pod that determines its place.
type Figure string

// The figures that the owner of a pod can change.
const (
	Request  Figure = "request"
	Usage    Figure = "usage"
	Priority Figure = "priority"
)

// maxPriority is the highest priority that a user can give a pod.
const maxPriority = 1_000_000_000

// Changes returns the changes of the evicted pod that would have saved it, each of them alone. It returns none
// without another pod that would have been evicted instead.
func Changes(r *decisionlog.Record) (changes []Change) {
	evicted, next := r.Evicted()
	if evicted == nil || next == nil {
		return nil
	}
	k := &evicted.Key
	saved := func(changed ranking.Key) bool {
		a, b := ranked(next), ranked(evicted)
		b.Key = changed
		return ranking.Before(&a, &b)
	}
	usage, request, priority := int64(k.Usage), int64(k.Request), int64(k.Priority)
	if (k.Order == ranking.ByMemory || k.Order == ranking.ByDisk) && !k.NoStats {
		to, ok := least(request, maxRequest(r), func(n int64) bool { return saved(k.With(k.Usage, signals.Amount(n), k.Priority)) })
		if to = roundUp(to); ok && to <= maxRequest(r) {
			changes = append(changes, Change{Request, request, to})
		}
	}
	if !k.NoStats {
		// The same search downwards, for the least amount to use less.
		less, ok := least(0, usage, func(n int64) bool { return saved(k.With(k.Usage-signals.Amount(n), k.Request, k.Priority)) })
		if ok {
			changes = append(changes, Change{Usage, usage, roundDown(usage-less, k.Order)})
		}
	}
	to, ok := least(priority, maxPriority, func(n int64) bool { return saved(k.With(k.Usage, k.Request, int32(n))) })
	if ok {
		changes = append(changes, Change{Priority, priority, to})
	}
	return changes
}

// ranked returns a place for a comparison.
func ranked(p *decisionlog.Place) ranking.Ranked {
	return ranking.Ranked{Candidate: signals.Candidate{Pod: &signals.Pod{UID: p.UID, Name: p.Pod}}, Key: p.Key}
}

// maxRequest returns the largest request that the node can satisfy, as far as its capacity is known.
func maxRequest(r *decisionlog.Record) int64 {
	if r.Capacity != nil {
		return *r.Capacity
	}
	return math.MaxInt64 / 2
}

// least returns the smallest number above from, and up to to, for which ok is true. ok is true for all numbers
// above one for which it is: each figure moves the pod in one direction of the order.
func least(from, to int64, ok func(int64) bool) (n int64, found bool) {
	if from >= to || !ok(to) {
		return 0, false
	}
	for to-from > 1 {
		if middle := from + (to-from)/2; ok(middle) {
			to = middle
		} else {
			from = middle
		}
	}
	return to, true
}

// roundUp returns a number of bytes as a whole Mi, if it is at least one, or else a whole Ki.
func roundUp(n int64) int64 {
	for _, step := range [...]int64{1 << 20, 1 << 10} {
		if rest := n % step; n >= step && rest > 0 {
			return n + step - rest
		} else if n >= step {
			return n
		}
	}
	return n
}

// roundDown returns a number of bytes as a whole Mi, if it is at least one. Other units stay.
func roundDown(n int64, order ranking.Order) int64 {
	if n >= 1<<20 && (order == ranking.ByMemory || order == ranking.ByDisk) {
		return n - n%(1<<20)
	}
	return n
}

// criterion is a key of the order, by which two pods differ.
type criterion uint8

const (
	byUID criterion = iota
	byLast
	byStats
	byExcess
	byPriority
	byEvictionPriority
	byIncomplete
	byOver
)

// decides returns the first criterion by which two pods of one ranking differ.
func decides(a, b *ranking.Key) criterion {
	priority := func() criterion {
		switch {
		case a.Priority != b.Priority:
			return byPriority
		case a.EvictionPriority != b.EvictionPriority:
			return byEvictionPriority
		}
		return byUID
	}
	switch {
	case a.Last != b.Last:
		return byLast
	case a.Order == ranking.ByPIDs && priority() != byUID:
		return priority()
	case a.NoStats != b.NoStats:
		return byStats
	case a.Order != ranking.ByPIDs && a.Exceeds != b.Exceeds:
		return byExcess
	case priority() != byUID:
		return priority()
	case (a.Incomplete != "") != (b.Incomplete != ""):
		return byIncomplete
	case a.Usage-a.Request != b.Usage-b.Request:
		return byOver
	}
	return byUID
}
