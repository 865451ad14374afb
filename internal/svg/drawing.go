package svg

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// Escape returns a text with the characters that have a meaning in XML replaced. Characters that XML
// forbids become U+FFFD.
func Escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}

// Drawing is an SVG in progress. The zero value is empty.
type Drawing struct{ bytes.Buffer }

// Root describes the root element of a picture.
type Root struct {
	Width, Height int
	// Fixed pictures have this size in pixels. Others fill the width of their place.
	Fixed bool
	// ID distinguishes the pictures of one page. It is empty for a file of its own, and not escaped.
	ID                 string
	Title, Description string
	Style              string // CSS, not escaped; empty if the page has it
}

// Begin adds the beginning of the root element, with its title, description and style.
func (d *Drawing) Begin(r *Root) {
	size, title, desc := "", "title"+r.ID, "desc"+r.ID
	if r.Fixed {
		size = fmt.Sprintf(` width="%d" height="%d"`, r.Width, r.Height)
	}
	d.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"%s role="img" aria-labelledby="%s %s">`, r.Width, r.Height, size, title, desc)
	d.Add(`<title id="%s">%s</title>`, title, Escape(r.Title))
	d.Add(`<desc id="%s">%s</desc>`, desc, Escape(r.Description))
	if r.Style != "" {
		d.Add(`<style>%s</style>`, r.Style)
	}
}

// End adds the end of the root element.
func (d *Drawing) End() { d.Add("</svg>") }

// Text adds a text at the baseline y. The anchor is start if it is empty.
func (d *Drawing) Text(x, y float64, class, anchor, text string) {
	attributes := ""
	if class != "" {
		attributes += fmt.Sprintf(` class="%s"`, class)
	}
	if anchor != "" {
		attributes += fmt.Sprintf(` text-anchor="%s"`, anchor)
	}
	d.Add(`<text x="%.1f" y="%.1f"%s>%s</text>`, x, y, attributes, Escape(text))
}

// Add adds an element as it is formatted: nothing is escaped.
func (d *Drawing) Add(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }
