package main

import (
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/svg"
)

// Places in pixels. The lanes of the evictions are below the curve, above the common axis of time.
const (
	width, height = 720, 330
	left, right   = 64, 696 // of the axis of time
	top, bottom   = 52, 188 // of the axis of amounts
	kubeletLane   = 236
	helpsLane     = 280
	axis          = 298
	arm           = 5 // half of a cross, and the radius of a dot
)

// style has the colours for light and for dark pages. Marks differ in shape too.
const style = `
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.small{fill:#59636e}
.page{fill:#fff}.grid{stroke:#d1d9e0}.lane{stroke:#9aa4af}
.curve{fill:none;stroke:#0969da;stroke-width:2.5}
.limit{stroke:#9a6700;stroke-width:1.5;stroke-dasharray:6 4}text.on-limit{fill:#7d5300}
.vain{fill:none;stroke:#cf222e;stroke-width:2.5}.good{fill:#1a7f37}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.small{fill:#9198a1}
.page{fill:#0d1117}.grid{stroke:#3d444d}.lane{stroke:#656c76}
.curve{stroke:#4493f8}.limit{stroke:#d29922}text.on-limit{fill:#e3b341}
.vain{stroke:#f85149}.good{fill:#3fb950}}
`

// drawing is an SVG in progress.
type drawing struct {
	svg.Drawing
	end  time.Duration
	most signals.Amount
}

// draw returns the picture of the incident.
func (i *incident) draw() []byte {
	d := &drawing{end: i.seen[len(i.seen)-1].at, most: max(i.line, 1)}
	for _, s := range i.seen {
		d.most = max(d.most, s.available)
	}
	signal := i.threshold.Signal.String()
	d.Begin(&svg.Root{Width: width, Height: height, Fixed: true, Title: i.summary(), Description: i.description(), Style: style})
	d.Add(`<rect class="page" width="%d" height="%d" rx="6"/>`, width, height)
	d.Text(16, 26, "title", "", signal+", and evicted pods")
	d.cross(452, 21)
	d.Text(464, 26, "", "", "evicted in vain")
	d.dot(580, 21)
	d.Text(592, 26, "", "", "evicted, helps")
	d.axes(i.threshold.Signal.Definition().Unit)
	d.Add(`<path class="limit" d="M%d %.1fH%d"/>`, left, d.y(i.line), right)
	d.Text(left+64, d.y(i.line)-6, "on-limit", "", i.threshold.String())
	d.curve(i.seen)
	d.lane(kubeletLane, eviction.AsKubelet, i.kubelet)
	d.lane(helpsLane, eviction.Helps, i.helps)
	d.End()
	return d.Bytes()
}

// summary is the accessible title.
func (i *incident) summary() string {
	return fmt.Sprintf("Evictions in vain: %d with the choice %s, %d with the choice %s", vain(i.kubelet), eviction.AsKubelet, vain(i.helps), eviction.Helps)
}

// description is the accessible description: what the curve and the lanes show.
func (i *incident) description() string {
	unit := i.threshold.Signal.Definition().Unit
	var b strings.Builder
	fmt.Fprintf(&b, "%s over time, with the threshold %s.", i.threshold.Signal, i.threshold)
	for n, s := range i.seen {
		if n == 0 || n == len(i.seen)-1 || s.available != i.seen[n-1].available {
			fmt.Fprintf(&b, " At %s %s are available.", clock(s.at), signals.Format(s.available, unit))
		}
	}
	for _, lane := range []struct {
		choice eviction.Choice
		marks  []mark
	}{{eviction.AsKubelet, i.kubelet}, {eviction.Helps, i.helps}} {
		fmt.Fprintf(&b, " %s.", laneLabel(lane.choice, lane.marks))
	}
	return b.String()
}

func laneLabel(c eviction.Choice, marks []mark) string {
	pods := "pods"
	if len(marks) == 1 {
		pods = "pod"
	}
	return fmt.Sprintf("evictionChoice: %s, %d %s evicted, %d in vain", c, len(marks), pods, vain(marks))
}

// axes draws the grid with the amounts on the left and the times below.
func (d *drawing) axes(unit signals.Unit) {
	for _, amount := range []signals.Amount{0, d.most / 2, d.most} {
		d.Add(`<path class="grid" d="M%d %.1fH%d"/>`, left, d.y(amount), right)
		d.Text(left-8, d.y(amount)+4, "small", "end", signals.Format(amount, unit))
	}
	const maxTicks = 8
	interval := 10 * time.Second
	for d.end/interval > maxTicks {
		interval *= 3
	}
	for at := time.Duration(0); at <= d.end; at += interval {
		d.Add(`<path class="grid" d="M%.1f %dV%d"/>`, d.x(at), top, axis)
		d.Text(d.x(at), axis+18, "small", "middle", clock(at))
	}
}

// curve draws the samples, connected by lines.
func (d *drawing) curve(seen []sample) {
	var points []string
	for _, s := range seen {
		points = append(points, fmt.Sprintf("%.1f,%.1f", d.x(s.at), d.y(s.available)))
	}
	d.Add(`<polyline class="curve" points="%s"/>`, strings.Join(points, " "))
}

// lane draws the evictions with a choice.
func (d *drawing) lane(y float64, c eviction.Choice, marks []mark) {
	d.Text(left, y-14, "", "", laneLabel(c, marks))
	d.Add(`<path class="lane" d="M%d %.0fH%d"/>`, left, y, right)
	for _, m := range marks {
		if m.vain {
			d.cross(d.x(m.at), y)
		} else {
			d.dot(d.x(m.at), y)
		}
	}
}

func (d *drawing) cross(x, y float64) {
	d.Add(`<path class="vain" d="M%.1f %.1fl%d %dm0 -%dl-%d %d"/>`, x-arm, y-arm, 2*arm, 2*arm, 2*arm, 2*arm, 2*arm)
}

func (d *drawing) dot(x, y float64) {
	d.Add(`<circle class="good" cx="%.1f" cy="%.1f" r="%d"/>`, x, y, arm)
}

func (d *drawing) x(at time.Duration) float64 {
	return left + (right-left)*float64(at)/float64(max(d.end, 1))
}

func (d *drawing) y(amount signals.Amount) float64 {
	return bottom - (bottom-top)*float64(amount)/float64(d.most)
}

func clock(at time.Duration) string { return fmt.Sprintf("%g s", at.Seconds()) }
