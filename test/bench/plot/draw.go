package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Dimensions of the picture.
const (
	width       = 720 * vg.Length(1)
	panelHeight = 220 * vg.Length(1)
	legendWidth = 130 * vg.Length(1)
	dot         = 2.2 * vg.Length(1)
	cross       = 2.8 * vg.Length(1)
)

// palette distinguishes modes, for colour-blind eyes too (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{0xE6, 0x9F, 0x00, 0xFF}, color.RGBA{0x56, 0xB4, 0xE9, 0xFF}, color.RGBA{0x00, 0x9E, 0x73, 0xFF},
	color.RGBA{0x00, 0x72, 0xB2, 0xFF}, color.RGBA{0xCC, 0x79, 0xA7, 0xFF}, color.RGBA{0xD5, 0x5E, 0x00, 0xFF},
	color.RGBA{0x00, 0x00, 0x00, 0xFF},
}

// drawPanels writes all panels below each other as one SVG with one legend.
func drawPanels(panels []panel, to io.Writer) error {
	modes := modesOf(panels)
	if len(modes) > len(palette) {
		return fmt.Errorf("%d modes, and %d colours: add colours", len(modes), len(palette))
	}
	plots := make([][]*plot.Plot, len(panels))
	low, high := extent(panels)
	for i := range panels {
		p, err := panels[i].plot(modes, low, high)
		if err != nil {
			return fmt.Errorf("%s: %w", panels[i].title(), err)
		}
		plots[i] = []*plot.Plot{p}
	}
	picture := vgsvg.New(width, panelHeight*vg.Length(len(panels)))
	all := draw.New(picture)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: 12, PadTop: 6, PadBottom: 6, PadLeft: 6}
	for i, row := range plot.Align(plots, tiles, draw.Crop(all, 0, -legendWidth, 0, 0)) {
		plots[i][0].Draw(row[0])
	}
	l := legend(modes)
	l.Draw(draw.Crop(all, width-legendWidth+8, 0, 0, -24))
	_, err := picture.WriteTo(to)
	return err
}

// extent returns the common axis of times in whole decades.
func extent(panels []panel) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, p := range panels {
		for _, r := range p.races {
			low, high = min(low, *r.ToDead), max(high, *r.ToDead)
		}
	}
	low = math.Pow(10, math.Floor(math.Log10(low)))
	return low, max(math.Pow(10, math.Ceil(math.Log10(high))), 10*low)
}

func legend(modes []string) plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	for i, mode := range modes {
		l.Add(mode, &plotter.Scatter{GlyphStyle: style(i, false)})
	}
	l.Add("killed by the kernel", &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: color.Gray{0x60}, Radius: cross, Shape: draw.CrossGlyph{}}})
	l.TextStyle.Font.Size, l.Padding = 9, 3
	return l
}

func style(mode int, lost bool) draw.GlyphStyle {
	if lost {
		return draw.GlyphStyle{Color: palette[mode], Radius: cross, Shape: draw.CrossGlyph{}}
	}
	return draw.GlyphStyle{Color: palette[mode], Radius: dot, Shape: draw.CircleGlyph{}}
}

func (p *panel) plot(modes []string, low, high float64) (*plot.Plot, error) {
	d := plot.New()
	d.Title.Text = p.title()
	d.Title.TextStyle.Font.Size = 10
	d.Y.Label.Text = "crossing to dead, ms"
	d.Y.Label.TextStyle.Font.Size = 9
	d.Y.Scale, d.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	d.Y.Min, d.Y.Max = low, high
	rates := p.rates()
	names := make([]string, len(rates))
	for i, r := range rates {
		names[i] = name(r)
	}
	d.NominalX(names...)
	d.Add(plotter.NewGrid())
	for i, mode := range modes {
		for _, lost := range []bool{false, true} {
			points := p.points(mode, i, len(modes), rates, lost)
			if len(points) == 0 {
				continue
			}
			s, err := plotter.NewScatter(points)
			if err != nil {
				return nil, err
			}
			s.GlyphStyle = style(i, lost)
			d.Add(s)
		}
	}
	d.X.Min, d.X.Max = -0.5, float64(len(rates))-0.5
	d.Y.Min, d.Y.Max = low, high // adding widens
	return d, nil
}

func name(rate int64) string {
	switch {
	case rate == 0:
		return "as fast as it goes"
	case rate%1024 == 0:
		return fmt.Sprintf("%d GiB/s", rate/1024)
	}
	return fmt.Sprintf("%d MiB/s", rate)
}

// points returns a mode's races, side by side within its share of each rate's place on the
// axis.
func (p *panel) points(mode string, place, places int, rates []int64, lost bool) (points plotter.XYs) {
	const used = 0.8 // of the distance between two rates
	total, at := map[int64]int{}, map[int64]int{}
	for _, r := range p.races {
		if r.Mode == mode {
			total[r.Asked]++
		}
	}
	for _, r := range p.races {
		if r.Mode != mode {
			continue
		}
		within := (float64(at[r.Asked]) + 0.5) / float64(total[r.Asked])
		at[r.Asked]++
		if (r.Outcome != "saved") != lost {
			continue
		}
		x := float64(slices.Index(rates, r.Asked)) - used/2 + used*(float64(place)+0.1+0.8*within)/float64(places)
		points = append(points, plotter.XY{X: x, Y: *r.ToDead})
	}
	return points
}
