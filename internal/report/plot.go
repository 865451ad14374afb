package report

import (
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/svg"
)

// Places in the units of a picture. Texts have room for their larger size.
const (
	chartWidth  = 720
	left, right = 92.0, 704.0 // of the axis of time
	textSize    = 20.0
	plotHeight  = 180.0
	stackHeight = 240.0
	laneHeight  = 44.0 // a label, and the marks below it
	markedLane  = 64.0 // a label, marks, and their numbers
	axisHeight  = 34.0
)

// plot is a part of a picture with the axes of time and of an amount.
type plot struct {
	*svg.Drawing
	i           *Incident
	top, bottom float64
	most        int64 // amount at the top
	cut         bool  // larger amounts are drawn there too
}

func (p *plot) x(at time.Duration) float64 {
	span := p.i.span()
	if span <= 0 {
		return left
	}
	return left + float64((right-left)*min(max(float64(at)/float64(span), 0), 1))
}

// column returns the place of a column's begin.
func column(n int) float64 { return left + float64((right-left)*float64(n)/columns) }

func (p *plot) y(value int64) float64 {
	return p.bottom - float64((p.bottom-p.top)*min(max(float64(value)/float64(max(p.most, 1)), 0), 1))
}

// amounts draws the axis of amounts.
func (p *plot) amounts(unit signals.Unit) {
	for _, n := range []int64{0, p.most / 2, p.most} {
		p.Add(`<path class="grid" d="M%.1f %.1fH%.1f"/>`, left, p.y(n), right)
		label := unit.Short(signals.Amount(n))
		if p.cut && n == p.most {
			label += "+"
		}
		p.Text(left-8, p.y(n)+5, "small", "end", label)
	}
}

// intervals are those between labelled times.
var intervals = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// maxTicks is the number of times that have room for their label.
const maxTicks = 4

// times draws the axis of time, with lines from the top of the plot to the axis at y.
func (p *plot) times(y float64) {
	span, interval := p.i.span(), time.Duration(0)
	for _, interval = range intervals {
		if span/interval < maxTicks {
			break
		}
	}
	for span/interval >= maxTicks {
		interval *= 2
	}
	form := "15:04:05"
	switch {
	case span >= 24*time.Hour:
		form = "01-02 15:04"
	case interval >= time.Minute:
		form = "15:04"
	}
	p.Add(`<path class="lane" d="M%.1f %.1fH%.1f"/>`, left, y, right)
	begin := p.i.begin.UTC()
	for t := begin.Truncate(interval); !t.After(p.i.end); t = t.Add(interval) {
		if t.Before(begin) {
			continue
		}
		x, anchor := p.x(t.Sub(begin)), "middle"
		switch half := textSize * 0.3 * float64(len(form)); { // of a label
		case x+half > chartWidth-2:
			x, anchor = right, "end"
		}
		p.Add(`<path class="grid" d="M%.1f %.1fV%.1f"/>`, p.x(t.Sub(begin)), p.top, y)
		p.Text(x, y+textSize, "small", anchor, t.Format(form))
	}
}

// line returns the data of a path through points; of a single one a dot.
func (p *plot) line(points []point) string {
	var b strings.Builder
	for n, at := range points {
		command := "L"
		if n == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, p.x(at.at), p.y(at.value))
	}
	if len(points) == 1 {
		b.WriteString("h0")
	}
	return b.String()
}

// lane draws the label of a lane, and the line on which its marks are. It returns the place of that line.
func (p *plot) lane(top float64, label string) (y float64) {
	p.Text(left, top+textSize-2, "", "", label)
	y = top + laneHeight - 12
	p.Add(`<path class="grid" d="M%.1f %.1fH%.1f"/>`, left, y, right)
	return y
}

// ticks draws a vertical line in each column in which something happened.
func (p *plot) ticks(of *presence, y, half float64) {
	var b strings.Builder
	for n, is := range of.columns {
		if is {
			fmt.Fprintf(&b, "M%.1f %.1fv%.1f", column(n), y-half, 2*half)
		}
	}
	if b.Len() > 0 {
		p.Add(`<path class="check" d="%s"/>`, b.String())
	}
}

// shape is the form of a mark.
type shape uint8

// The shapes: each has a meaning of its own, without its colour.
const (
	triangle shape = iota // a pod was evicted
	diamond               // a pod would have been evicted
	square                // a threshold was met, and no pod was evicted
	cross                 // the kernel's OOM killer ended a process
	circle                // another decision
)

// shapeNames name the shapes in a legend.
const shapeNames = "Triangle: eviction. Diamond: dry run. Square: no eviction although a threshold was met. Cross: OOM kill of the kernel. Circle: other decision."

func (p *plot) mark(s shape, x, y float64) {
	switch s {
	case triangle:
		p.Add(`<path class="evict" d="M%.1f %.1fl8 14h-16z"/>`, x, y-8)
	case diamond:
		p.Add(`<path class="dry" d="M%.1f %.1fl7 8l-7 8l-7 -8z"/>`, x, y-8)
	case square:
		p.Add(`<path class="mark" d="M%.1f %.1fh10v10h-10z"/>`, x-5, y-5)
	case cross:
		p.Add(`<path class="kill" d="M%.1f %.1fl12 12m0 -12l-12 12"/>`, x-6, y-6)
	default:
		p.Add(`<circle class="mark" cx="%.1f" cy="%.1f" r="4"/>`, x, y)
	}
}
