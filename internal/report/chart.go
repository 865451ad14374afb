package report

import (
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/svg"
)

// Heights of the two kinds of charts.
const (
	signalHeight = int(textSize + plotHeight + 2*laneHeight + markedLane + axisHeight)
	memoryHeight = int(textSize + stackHeight + markedLane + axisHeight)
)

// maxFactor is the maximum ratio of the amounts drawn to the largest threshold. Beyond it the threshold would
// lie on the axis, and what happened near it could not be seen.
const maxFactor = 8

// shown returns the signals with a picture: those that were crossed or acted for, and the memory of the node.
func (i *Incident) shown() (all []*history) {
	for s, h := range i.histories {
		if h != nil && h.known > 0 && (signals.Signal(s) == signals.MemoryAvailable || h.acted || h.isCrossed()) {
			all = append(all, h)
		}
	}
	return all
}

// scale returns the amount at the top of the picture, and whether larger ones are drawn there.
func (h *history) scale() (most int64, cut bool) {
	_, top, _ := h.available.extremes()
	var level int64
	for _, c := range h.crossings {
		for _, l := range c.levels {
			level = max(level, l.value)
		}
	}
	most = max(top.value, level, 1)
	if level > 0 && most/maxFactor > level {
		return level * maxFactor / 2, true
	}
	return most, false
}

// drawSignal draws a signal, with its thresholds, the checks, and the decisions.
func (i *Incident) drawSignal(d *svg.Drawing, h *history, top float64) {
	p := &plot{Drawing: d, i: i, top: top + textSize, bottom: top + textSize + plotHeight}
	p.most, p.cut = h.scale()
	p.amounts(h.signal.Definition().Unit)
	axis := p.bottom + 2*laneHeight + markedLane
	p.times(axis)
	p.thresholds(h)
	for _, points := range h.available.lines() {
		p.Add(`<path class="curve" d="%s"/>`, p.line(points))
	}
	condition := h.signal.Definition().Condition
	held := &i.conditions[condition]
	label := condition.String() + " True: never"
	if held.count > 0 {
		label = condition.String() + " True: " + duration(held.total)
	}
	y := p.lane(p.bottom, label)
	for _, bar := range held.bars() {
		from, to := column(bar[0]), column(bar[1]+1)
		p.Add(`<path class="held" d="M%.1f %.1fH%.1fv8H%.1fz"/>`, from, y-4, to, from)
	}
	y = p.lane(p.bottom+laneHeight, fmt.Sprintf("Checks: %d periodic (long), %d early (short)", i.periodic.count, i.early.count))
	p.ticks(&i.periodic, y, 9)
	p.ticks(&i.early, y, 4)
	p.decisions(p.bottom+2*laneHeight, func(signal string) bool { return signal == "" || signal == h.signal.String() }, h.signal.OfMemory())
}

// thresholds draws the thresholds of a signal, with a label where there is room. The table has them all.
func (p *plot) thresholds(h *history) {
	var labels []float64 // their places
	for _, c := range h.crossings {
		if len(c.levels) == 0 {
			continue
		}
		var b strings.Builder
		for _, l := range c.levels {
			fmt.Fprintf(&b, "M%.1f %.1fH%.1f", p.x(l.from), p.y(l.value), max(p.x(l.to), p.x(l.from)+1))
		}
		p.Add(`<path class="limit" d="%s"/>`, b.String())
		y := p.y(c.levels[len(c.levels)-1].value) - 6
		if y < p.top+textSize { // below the line
			y += 6 + textSize
		}
		if !isNear(labels, y) {
			labels = append(labels, y)
			p.Text(left+8, y, "on-limit", "", printable(c.threshold, maxLabel))
		}
	}
}

// maxLabel bounds a text within a picture, in bytes.
const maxLabel = 48

func isNear(places []float64, y float64) bool {
	for _, place := range places {
		if place-y < textSize && y-place < textSize {
			return true
		}
	}
	return false
}

// decisions draws the lane of the decisions about some signals.
func (p *plot) decisions(top float64, of func(signal string) bool, kills bool) {
	y := p.lane(top, "Decisions")
	type drawn struct {
		shape shape
		x     int
	}
	seen := map[drawn]bool{}
	mark := func(s shape, x float64) {
		if key := (drawn{s, int(x / 2)}); !seen[key] {
			seen[key] = true
			p.mark(s, x, y)
		}
	}
	decisions, _ := p.i.decisions.all()
	for _, x := range decisions {
		switch s := x.shape(); s {
		case triangle, diamond, cross: // from the lists of their own
		default:
			if of(x.signal) {
				mark(s, p.x(p.i.at(x.at)))
			}
		}
	}
	evictions, gap := p.i.evictions.all()
	end := 0.0 // of the last number
	for n, x := range evictions {
		if !of(x.cause) && !isLimit(x.cause) {
			continue
		}
		s, at := triangle, p.x(p.i.at(x.at))
		if x.dryRun {
			s = diamond
		}
		mark(s, at)
		if n >= gap {
			n += p.i.evictions.omitted
		}
		label := fmt.Sprint(n + 1)
		if half := textSize * 0.3 * float64(len(label)); at-half > end {
			p.Text(at, y+textSize+8, "small", "middle", label)
			end = at + half
		}
	}
	killed, _ := p.i.kills.all()
	for n := range killed {
		if kills && killed[n].isDated() {
			mark(cross, p.x(p.i.at(killed[n].to)))
		}
	}
}

// isDated reports whether it is known when the kill happened, to the interval between two measurements.
func (k *kill) isDated() bool { return k.pod != unknown || k.from.Equal(k.to) }

// shape returns the mark of a decision.
func (x *decision) shape() shape {
	switch x.verb {
	case evictVerb, softVerb:
		return triangle
	case wouldVerb:
		return diamond
	case killVerb:
		return cross
	}
	for _, r := range refusals {
		if r.verb == x.verb {
			return square
		}
	}
	return circle
}

// drawMemory draws the memory of pods, the largest at the bottom, and the evictions.
func (i *Incident) drawMemory(d *svg.Drawing, top float64) {
	m := i.memory
	p := &plot{Drawing: d, i: i, top: top + textSize, bottom: top + textSize + stackHeight, most: max(m.top(), 1)}
	p.amounts(signals.UnitBytes)
	p.times(p.bottom + markedLane)
	parts := m.samples()
	for n := len(m.layers) - 1; n >= 0; n-- { // each is drawn over the ones above it
		if !m.layers[n].isDrawn() {
			continue
		}
		for _, samples := range parts {
			p.area(samples, n)
		}
	}
	for n, l := range m.layers {
		if l.isDrawn() {
			p.letter(parts, n)
		}
	}
	p.decisions(p.bottom, func(string) bool { return true }, true)
}

// through returns the sum of the layers up to one.
func (s *sample) through(n int) (total int64) {
	for _, v := range s.values[:n+1] {
		total = sum(total, v)
	}
	return total
}

// area draws the sum of the layers up to one.
func (p *plot) area(samples []*sample, n int) {
	var b strings.Builder
	first, last := p.x(samples[0].at), p.x(samples[len(samples)-1].at)
	fmt.Fprintf(&b, "M%.1f %.1f", first, p.bottom)
	for _, s := range samples {
		fmt.Fprintf(&b, "L%.1f %.1f", p.x(s.at), p.y(s.through(n)))
	}
	if last < first+2 { // a single measurement has no width
		fmt.Fprintf(&b, "H%.1f", first+2)
	}
	p.Add(`<path class="layer %s" d="%sV%.1fz"/>`, classOf(letter(n)), b.String(), p.bottom)
}

// letter draws the letter of a layer where that has room for the longest time, if it has any.
func (p *plot) letter(parts [][]*sample, n int) {
	var x, y, width float64
	for _, samples := range parts {
		from := -1
		for k := 0; k <= len(samples); k++ {
			if k < len(samples) && p.y(samples[k].through(n)-samples[k].values[n])-p.y(samples[k].through(n)) >= textSize {
				if from < 0 {
					from = k
				}
				continue
			}
			if from < 0 {
				continue
			}
			if w := p.x(samples[k-1].at) - p.x(samples[from].at); w > width {
				middle := samples[(from+k-1)/2]
				x, width = p.x(middle.at), w
				y = (p.y(middle.through(n)) + p.y(middle.through(n)-middle.values[n])) / 2
			}
			from = -1
		}
	}
	if width > textSize {
		p.Text(min(max(x, left+8), right-8), y+6, "", "middle", letter(n))
	}
}
