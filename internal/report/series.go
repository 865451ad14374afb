package report

import "time"

// columns is the number of equal parts of the time of a report. A curve has at most two points in each:
// the smallest and the largest one.
const columns = 240

// columnOf returns the column of a time since the begin of the report.
func columnOf(at, span time.Duration, columns int) int {
	if span <= 0 {
		return 0
	}
	return min(max(int(float64(at)/float64(span)*float64(columns)), 0), columns-1)
}

// point is a value at a time since the begin of the report.
type point struct {
	at    time.Duration
	value int64
	part  int // points of different parts are not connected: something between them is not recorded
}

// series stores the smallest and the largest value of each column. Its size does not depend on the number
// of values.
type series struct {
	span    time.Duration // of the report
	part    int
	columns [columns]struct {
		known    bool
		min, max point
	}
}

// add adds the next value. Of equal ones the first is stored.
func (s *series) add(at time.Duration, value int64) {
	c, p := &s.columns[columnOf(at, s.span, columns)], point{at, value, s.part}
	if !c.known {
		c.known, c.min, c.max = true, p, p
		return
	}
	if value < c.min.value {
		c.min = p
	}
	if value > c.max.value {
		c.max = p
	}
}

// lines returns the stored points in their order, in connected parts.
func (s *series) lines() (parts [][]point) {
	last := -1
	for i := range s.columns {
		c := &s.columns[i]
		if !c.known {
			continue
		}
		first, second := c.min, c.max
		if second.part < first.part || second.part == first.part && second.at < first.at {
			first, second = second, first
		}
		for n, p := range [...]point{first, second} {
			if n == 1 && p == first {
				continue
			}
			if p.part != last || len(parts) == 0 {
				parts, last = append(parts, nil), p.part
			}
			parts[len(parts)-1] = append(parts[len(parts)-1], p)
		}
	}
	return parts
}

// extremes returns the smallest and the largest value.
func (s *series) extremes() (least, most point, known bool) { return s.extremesOf(0, columns) }

// extremesOf returns the smallest and the largest value of the columns from one to before another.
func (s *series) extremesOf(from, to int) (least, most point, known bool) {
	for i := from; i < to; i++ {
		c := &s.columns[i]
		switch {
		case !c.known:
		case !known:
			least, most, known = c.min, c.max, true
		default:
			if c.min.value < least.value {
				least = c.min
			}
			if c.max.value > most.value {
				most = c.max
			}
		}
	}
	return least, most, known
}

// ends stores the first and the last of any number of items.
type ends[T any] struct {
	limit       int
	first, last []T
	omitted     int // between the two
}

// add adds an item.
func (e *ends[T]) add(item T) {
	if len(e.first) < e.limit/2 {
		e.first = append(e.first, item)
		return
	}
	if e.last = append(e.last, item); len(e.last) > e.limit-e.limit/2 {
		copy(e.last, e.last[1:])
		e.last = e.last[:len(e.last)-1]
		e.omitted++
	}
}

// all returns the stored items in their order. Those left out are before the one at the index gap.
func (e *ends[T]) all() (items []T, gap int) {
	items = append(append(make([]T, 0, len(e.first)+len(e.last)), e.first...), e.last...)
	return items, len(e.first)
}

// count returns the number of all items.
func (e *ends[T]) count() int { return len(e.first) + len(e.last) + e.omitted }

// latest returns the last item, or nil.
func (e *ends[T]) latest() *T {
	switch {
	case len(e.last) > 0:
		return &e.last[len(e.last)-1]
	case len(e.first) > 0:
		return &e.first[len(e.first)-1]
	}
	return nil
}
