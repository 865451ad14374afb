package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/internal/svg"
)

// Sizes in pixels.
const (
	cellWidth  = 12
	cellHeight = 26
	fontSize   = 20
	baseline   = 20 // of text, below the top of its line
	margin     = 20
	titleBar   = 40
)

// minColumns is the least width of the text, so that one picture is as wide as
// the next.
const minColumns = 76

// Colours of the window, which do not depend on the page.
const (
	background = "#0d1117"
	frame      = "#57606a"
	bar        = "#21262d"
	foreground = "#e6edf3"
	emphasis   = "#ffffff"
)

// colors are those of text and bars.
var colors = map[color]string{
	0: foreground, red: "#ff6b61", green: "#3fb950", yellow: "#e3b341", blue: "#79c0ff", gray: "#8b949e",
}

// fonts are monospaced ones of all platforms.
const fonts = `ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace`

// render returns the SVG of a window with these lines. Returns an error if there
// are none.
func render(lines []line, title string) ([]byte, error) {
	if len(lines) == 0 {
		return nil, errors.New("no text")
	}
	columns := minColumns
	for _, l := range lines {
		columns = max(columns, len(l))
	}
	width, height := 2*margin+columns*cellWidth, titleBar+2*margin+len(lines)*cellHeight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="%s" font-size="%d">`+"\n",
		width, height, width, height, fonts, fontSize)
	fmt.Fprintf(&b, "<title>%s</title>\n", svg.Escape(title))
	fmt.Fprintf(&b, `<rect x="1" y="1" width="%d" height="%d" rx="10" fill="%s"/>`+"\n", width-2, height-2, background)
	fmt.Fprintf(&b, `<path d="M1 %dV11a10 10 0 0 1 10 -10H%da10 10 0 0 1 10 10V%dz" fill="%s"/>`+"\n", titleBar, width-11, titleBar, bar)
	fmt.Fprintf(&b, `<rect x="1" y="1" width="%d" height="%d" rx="10" fill="none" stroke="%s" stroke-width="2"/>`+"\n", width-2, height-2, frame)
	for i, fill := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="7" fill="%s"/>`, margin+7+i*24, titleBar/2, fill)
	}
	fmt.Fprintf(&b, "\n"+`<text x="%d" y="%d" text-anchor="middle" fill="%s" font-size="16">%s</text>`+"\n", width/2, titleBar/2+6, colors[gray], svg.Escape(title))
	for i, l := range lines {
		l.render(&b, margin, titleBar+margin+i*cellHeight)
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// render writes a line with its upper left corner at x, y. Marks, which are
// wider than their cell, come last and lie above their neighbours.
func (l line) render(b *bytes.Buffer, x, y int) {
	var above strings.Builder
	for from := 0; from < len(l); {
		to := l.runEnd(from)
		first, at := l[from], x+from*cellWidth
		draw := shapes[first.char]
		switch {
		case first.char == ' ':
		case draw == nil:
			b.WriteString(text(l[from:to], at, y+baseline))
		case first.char == '█' || first.char == '░':
			b.WriteString(draw(at, y, to-from, first.style.fill()))
		default:
			above.WriteString(draw(at, y, to-from, first.style.fill()))
		}
		from = to
	}
	b.WriteString(above.String() + "\n")
}

// runEnd returns the end of the run from a cell on: cells of one style, either
// letters of a word or the same shape or space.
func (l line) runEnd(from int) int {
	to := from + 1
	for to < len(l) && l[from].joins(l[to]) {
		to++
	}
	return to
}

// joins reports whether two cells may be in one run.
func (c cell) joins(next cell) bool {
	letters := c.char != ' ' && next.char != ' ' && shapes[c.char] == nil && shapes[next.char] == nil
	return c.style == next.style && (c.char == next.char || letters)
}

// text returns a word. Its length is fixed, so that columns stay aligned in any
// font.
func text(word line, x, y int) string {
	var letters strings.Builder
	for _, c := range word {
		letters.WriteRune(c.char)
	}
	weight := ""
	if word[0].style.bold {
		weight = ` font-weight="bold"`
	}
	return fmt.Sprintf(`<text x="%d" y="%d" textLength="%d" fill="%s"%s>%s</text>`,
		x, y, len(word)*cellWidth, word[0].style.fill(), weight, svg.Escape(letters.String()))
}

// fill returns the colour of a style as SVG writes it.
func (s style) fill() string {
	if s.bold && s.color == 0 {
		return emphasis
	}
	return colors[s.color]
}
