// Package timerqueue orders times: it returns the next one due among any number of keys.
//
// Duties and invariants:
//
//   - A key has at most one time. Setting, moving and removing it take O(log n). Nothing
//     iterates over all keys.
//   - Equal times are in the order of their keys, so that the same input gives the same
//     decisions.
package timerqueue

import (
	"cmp"
	"math"
	"time"
)

// Queue stores a time for each key. The zero value is not usable; see [New].
type Queue[K cmp.Ordered] struct {
	heap  []entry[K]
	index map[K]int // index in the heap
}

type entry[K cmp.Ordered] struct {
	at  int64 // ns since 1970: half the size of a time.Time
	key K
}

// New returns an empty queue.
func New[K cmp.Ordered]() *Queue[K] { return &Queue[K]{index: map[K]int{}} }

// Len returns the number of keys.
func (q *Queue[K]) Len() int { return len(q.heap) }

// Set sets the time of a key, or moves it.
func (q *Queue[K]) Set(key K, at time.Time) {
	e := entry[K]{nanos(at), key}
	i, is := q.index[key]
	if !is {
		q.heap = append(q.heap, e)
		q.index[key] = len(q.heap) - 1
		q.up(len(q.heap) - 1)
		return
	}
	q.heap[i] = e
	q.settle(i)
}

// Nanoseconds since 1970 overflow an int64 beyond these times.
var (
	first = time.Unix(0, math.MinInt64)
	last  = time.Unix(0, math.MaxInt64)
)

// nanos returns the time in its stored form, saturated: input may have any year.
func nanos(at time.Time) int64 {
	switch {
	case at.Before(first):
		return math.MinInt64
	case at.After(last):
		return math.MaxInt64
	}
	return at.UnixNano()
}

// Remove removes the key, and reports whether it was present.
func (q *Queue[K]) Remove(key K) bool {
	i, is := q.index[key]
	if !is {
		return false
	}
	last := len(q.heap) - 1
	q.swap(i, last)
	q.heap[last] = entry[K]{}
	q.heap = q.heap[:last]
	delete(q.index, key)
	if i < last {
		q.settle(i)
	}
	return true
}

// At returns the key's time.
func (q *Queue[K]) At(key K) (at time.Time, ok bool) {
	i, is := q.index[key]
	if !is {
		return time.Time{}, false
	}
	return time.Unix(0, q.heap[i].at), true
}

// Next returns the earliest key without removing it.
func (q *Queue[K]) Next() (key K, at time.Time, ok bool) {
	if len(q.heap) == 0 {
		return key, at, false
	}
	return q.heap[0].key, time.Unix(0, q.heap[0].at), true
}

// Pop removes and returns the earliest key, if its time is at or before now.
func (q *Queue[K]) Pop(now time.Time) (key K, ok bool) {
	if len(q.heap) == 0 || q.heap[0].at > nanos(now) {
		return key, false
	}
	key = q.heap[0].key
	q.Remove(key)
	return key, true
}

func (q *Queue[K]) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.key < b.key
}

func (q *Queue[K]) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.index[q.heap[i].key], q.index[q.heap[j].key] = i, j
}

// settle restores the heap order after a change of an entry.
func (q *Queue[K]) settle(i int) {
	if !q.up(i) {
		q.down(i)
	}
}

func (q *Queue[K]) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.before(i, parent) {
			break
		}
		q.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (q *Queue[K]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			return
		}
		if right := child + 1; right < len(q.heap) && q.before(right, child) {
			child = right
		}
		if !q.before(child, i) {
			return
		}
		q.swap(i, child)
		i = child
	}
}
