package main

import (
	"fmt"
	"image/color"
	"io"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart has groups of two bars: others first, Plimsoll second.
type chart struct {
	title  string
	groups []string
	others []float64
	ours   []float64
}

// charts is a picture: charts side by side with one legend.
type charts struct {
	others string // name of the others
	list   []chart
}

// saved returns the outcome of memory hogs by their rate, from the raw tables.
func saved(document string) (*charts, error) {
	const other, column = "10 s checks only", "saved"
	t, err := tableOf(document, "rate, MiB/s", "mode", column)
	if err != nil {
		return nil, err
	}
	c := chart{title: "Memory hogs ended in time, of ten, by fill rate in MiB/s"}
	if c.ours, err = t.numbers(column, "mode", "Plimsoll"); err != nil {
		return nil, err
	}
	if c.others, err = t.numbers(column, "mode", other); err != nil {
		return nil, err
	}
	for _, r := range t.rows {
		if r[1] == other {
			c.groups = append(c.groups, strings.Replace(r[0], "as fast as it goes", "maximum", 1))
		}
	}
	return &charts{others: "the same agent, a check every 10 s", list: []chart{c}}, nil
}

// controllers returns the cost and the reaction of controllers by the number of nodes, from the raw
// tables.
func controllers(document string) (*charts, error) {
	idle, err := tableOf(document, "an idle minute", "nodes", "upstream", "Plimsoll")
	if err != nil {
		return nil, err
	}
	rest, err := tableOf(document, "", "nodes", "upstream", "Plimsoll", "times")
	if err != nil {
		return nil, err
	}
	all := &charts{others: "Kubernetes' controllers"}
	for _, c := range []struct {
		table      *table
		row, title string
		per        float64 // the table has this many of the unit of the chart
	}{
		{rest, "resident, MiB", "Resident memory, MiB", 1},
		{idle, "CPU, ms", "Processor time of an idle minute, s", 1000},
		{rest, "from the deadline of a dead node to Unknown, s: median (worst of 10)", "Dead node, deadline to Unknown, s", 1},
	} {
		next := chart{title: c.title, groups: []string{"1 000 nodes", "5 000", "15 000"}}
		first := c.table.header[0]
		if next.others, err = c.table.numbers("upstream", first, c.row); err != nil {
			return nil, err
		}
		if next.ours, err = c.table.numbers("Plimsoll", first, c.row); err != nil {
			return nil, err
		}
		for i := range next.ours {
			next.ours[i] /= c.per
			next.others[i] /= c.per
		}
		all.list = append(all.list, next)
	}
	return all, nil
}

const (
	barWidth    = 22 * vg.Length(1)
	chartHeight = 210 * vg.Length(1)
)

// colours of the bars, for colour-blind eyes too.
var (
	othersColor = color.RGBA{0xB0, 0xB7, 0xBF, 0xFF}
	oursColor   = color.RGBA{0x00, 0x72, 0xB2, 0xFF}
)

// write draws the charts as one SVG.
func (all *charts) write(to io.Writer) error {
	row := make([]*plot.Plot, len(all.list))
	for i := range all.list {
		p, err := all.list[i].plot()
		if err != nil {
			return fmt.Errorf("%s: %w", all.list[i].title, err)
		}
		row[i] = p
	}
	picture := vgsvg.New(width, chartHeight)
	area := draw.New(picture)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	tiles := draw.Tiles{Rows: 1, Cols: len(row), PadX: 14, PadTop: 4, PadBottom: 22, PadLeft: 6, PadRight: 6}
	for i, place := range plot.Align([][]*plot.Plot{row}, tiles, area)[0] {
		row[i].Draw(place)
	}
	for _, entry := range []struct {
		name  string
		color color.Color
		left  vg.Length
	}{{"Plimsoll", oursColor, 16}, {all.others, othersColor, 110}} {
		b, err := plotter.NewBarChart(plotter.Values{0}, barWidth)
		if err != nil {
			return err
		}
		b.Color, b.LineStyle.Width = entry.color, 0
		one := plot.NewLegend()
		one.Left, one.TextStyle.Font.Size, one.ThumbnailWidth = true, 10, 14
		one.Add(entry.name, b)
		one.Draw(draw.Crop(area, entry.left, 0, 4, 0))
	}
	_, err := picture.WriteTo(to)
	return err
}

func (c *chart) plot() (*plot.Plot, error) {
	if len(c.ours) != len(c.groups) || len(c.others) != len(c.groups) {
		return nil, fmt.Errorf("%d groups, %d and %d values", len(c.groups), len(c.others), len(c.ours))
	}
	p := plot.New()
	p.Title.Text, p.Title.TextStyle.Font.Size, p.Title.Padding = c.title, 10, 8
	p.HideY()
	p.Y.Min = 0
	p.NominalX(c.groups...)
	p.X.Tick.Label.Font.Size, p.X.Tick.Length, p.X.LineStyle.Width = 10, 0, 0
	var above []plot.Plotter // of all bars
	for _, side := range []struct {
		values []float64
		color  color.Color
		offset vg.Length
	}{{c.ours, oursColor, -barWidth / 2}, {c.others, othersColor, barWidth / 2}} {
		b, err := plotter.NewBarChart(plotter.Values(side.values), barWidth)
		if err != nil {
			return nil, err
		}
		b.Color, b.Offset, b.LineStyle.Width = side.color, side.offset, 0
		p.Add(b)
		l, err := labels(side.values)
		if err != nil {
			return nil, err
		}
		l.Offset = vg.Point{X: side.offset, Y: 2}
		above = append(above, l)
		for _, v := range side.values {
			p.Y.Max = max(p.Y.Max, 1.12*v) // room for the labels
		}
	}
	p.Add(above...)
	p.X.Min, p.X.Max = -0.6, float64(len(c.groups))-0.4
	return p, nil
}

// labels returns the values as texts on their bars.
func labels(values []float64) (*plotter.Labels, error) {
	var all plotter.XYLabels
	for i, v := range values {
		all.XYs = append(all.XYs, plotter.XY{X: float64(i), Y: v})
		all.Labels = append(all.Labels, strconv.FormatFloat(v, 'g', max(2, len(strconv.Itoa(int(v)))), 64))
	}
	l, err := plotter.NewLabels(all)
	if err != nil {
		return nil, err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].XAlign, l.TextStyle[i].Font.Size = text.XCenter, 9
	}
	return l, nil
}
