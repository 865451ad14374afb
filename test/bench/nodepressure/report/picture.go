package report

import (
	"fmt"
	"html"
	"io"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// Sizes of the picture.
const (
	pictureWidth = 760
	labelWidth   = 210
	barWidth     = 400
	barHeight    = 16
	rowHeight    = 24
)

// colours of the verdicts, readable on light and on dark ground.
var colours = map[score.Verdict]string{
	score.Won: "#2da44e", score.Regret: "#d4a72c", score.Died: "#8250df", score.Wrong: "#e16f24", score.Lost: "#cf222e",
}

const pictureStyle = `<style>text { font: 13px system-ui, sans-serif; fill: #1c2430; } .head { font-weight: 600; } @media (prefers-color-scheme: dark) { text { fill: #e4e9f0; } }</style>`

// Picture writes the verdicts of all valid runs by contestant as SVG, one part for each section. Returns the
// error of the writer.
func (r *Report) Picture(to io.Writer) error {
	var b strings.Builder
	y := rowHeight
	x := labelWidth
	for _, v := range score.Verdicts {
		if colours[v] != "" {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y-11, colours[v], x+17, y, v)
			x += barWidth / len(colours)
		}
	}
	for _, s := range r.Sections {
		y = s.draw(&b, y)
	}
	_, err := fmt.Fprintf(to, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="verdicts of runs by contestant">%s`+"\n%s</svg>\n",
		pictureWidth, y+rowHeight/2, pictureStyle, b.String())
	return err
}

// draw draws a section below a line, and returns the line below it.
func (s *Section) draw(b *strings.Builder, y int) int {
	y += rowHeight + rowHeight/2
	fmt.Fprintf(b, `<text class="head" x="0" y="%d">The node is %s, cgroup v%d</text>`+"\n", y, html.EscapeString(s.Node), s.Cgroup)
	for _, c := range s.Contestants {
		if c.Total.Runs == 0 {
			continue
		}
		y += rowHeight
		fmt.Fprintf(b, `<text x="0" y="%d">%s</text>`, y, html.EscapeString(c.Name))
		at := float64(labelWidth)
		for _, v := range score.Verdicts {
			width := barWidth * float64(c.Total.Verdicts[v]) / float64(c.Total.Runs)
			if width > 0 {
				fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, at, y-barHeight+3, width, barHeight, colours[v])
			}
			at += width
		}
		fmt.Fprintf(b, `<text x="%d" y="%d">won %s</text>`+"\n", labelWidth+barWidth+10, y, fraction(c.Total.Verdicts[score.Won], c.Total.Runs))
	}
	return y
}
