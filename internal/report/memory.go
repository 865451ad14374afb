package report

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// memoryColumns is the number of parts of the time in which the memory of pods keeps its extremes.
const memoryColumns = 120

// layer is a pod, one of the largest, or all other pods together.
type layer struct {
	uid, name string
	most      int64     // bytes
	mostAt    time.Time // of the largest value
	first     int64     // the first value, -1 without one
	last      int64     // the last value
	end       string    // how the pod left; empty: it did not
	endAt     time.Time
}

// memory is the memory of pods over the time of a report: of the largest ones, and of all others together.
type memory struct {
	span    time.Duration
	layers  []*layer // the last one is the others
	index   map[string]int
	pods    int // in all
	most    int // at once
	part    int
	order   int
	columns [memoryColumns]struct{ min, max *sample }
	peaks   []*sample // the largest value of each layer
	unknown int       // values that could not be read
	count   int       // measurements
}

// sample is a measurement of all pods. Each stored one was measured: nothing is combined of several.
type sample struct {
	at     time.Duration
	order  int
	part   int
	values []int64 // of the layers
	total  int64
}

func newMemory(s *survey, span time.Duration) *memory {
	m := &memory{span: span, layers: s.largest(), index: map[string]int{}, pods: len(s.pods), most: s.most}
	for i, l := range m.layers {
		m.index[l.uid], l.most, l.first = i, -1, -1
	}
	m.layers = append(m.layers, &layer{name: "all other pods", most: -1, first: -1})
	m.peaks = make([]*sample, len(m.layers))
	return m
}

// add adds a measurement.
func (m *memory) add(u *recording.Usage, t time.Time, at time.Duration) {
	m.count++
	m.order++
	s := &sample{at: at, order: m.order, part: m.part, values: make([]int64, len(m.layers))}
	seen := make([]bool, len(m.layers))
	for i := range u.Pods {
		p := &u.Pods[i]
		n, drawn := m.index[uidOf(p.Pod.UID)]
		if !drawn {
			n = len(m.layers) - 1
		}
		bytes := p.Values[recording.WorkingSet]
		if bytes < 0 {
			m.unknown++
			continue
		}
		s.values[n], s.total, seen[n] = sum(s.values[n], bytes), sum(s.total, bytes), true
	}
	for n, l := range m.layers {
		if !seen[n] {
			continue
		}
		if l.last = s.values[n]; l.first < 0 {
			l.first = l.last
		}
		if l.last > l.most {
			l.most, l.mostAt, m.peaks[n] = l.last, t, s
		}
	}
	c := &m.columns[columnOf(at, m.span, memoryColumns)]
	if c.min == nil || s.total < c.min.total {
		c.min = s
	}
	if c.max == nil || s.total > c.max.total {
		c.max = s
	}
	for _, g := range u.Gone {
		if n, drawn := m.index[uidOf(g.Pod.UID)]; drawn {
			m.layers[n].end, m.layers[n].endAt = g.End.String(), t
		}
	}
}

// sum returns the sum of two amounts, at most the maximum.
func sum(a, b int64) int64 { return int64(signals.Amount(a).Plus(signals.Amount(b))) }

// samples returns the stored measurements in connected parts: those with the smallest and the largest
// total of each column, and those with the largest value of a layer.
func (m *memory) samples() (parts [][]*sample) {
	var all []*sample
	for i := range m.columns {
		all = append(all, m.columns[i].min, m.columns[i].max)
	}
	all = slices.DeleteFunc(append(all, m.peaks...), func(s *sample) bool { return s == nil })
	slices.SortFunc(all, func(a, b *sample) int { return a.order - b.order })
	for i, s := range slices.Compact(all) {
		if i == 0 || s.part != parts[len(parts)-1][0].part {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], s)
	}
	return parts
}

// top returns the largest total.
func (m *memory) top() (most int64) {
	for i := range m.columns {
		if s := m.columns[i].max; s != nil {
			most = max(most, s.total)
		}
	}
	return most
}

// isDrawn reports whether a layer has any value.
func (l *layer) isDrawn() bool { return l.first >= 0 }

// letter names a layer in the picture and in its table.
func letter(n int) string { return string(rune('A' + n)) }
