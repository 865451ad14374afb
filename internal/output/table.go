package output

import (
	"strings"
	"unicode/utf8"
)

// Level is how urgent a cell is. On a terminal it is a colour.
type Level uint8

// The levels.
const (
	Normal Level = iota
	Warning
	Critical
)

var colours = [...]string{Warning: "\x1b[33m", Critical: "\x1b[31m"}

const endColour = "\x1b[0m"

// Cell is a cell of a table. An empty text is shown as a hyphen.
type Cell struct {
	Text  string
	Level Level
}

// Table is the text of a document: aligned columns, and a last line below them.
type Table struct {
	Columns []string
	Rows    [][]Cell
	Summary string // one line below the rows; empty: none
}

// gap is the number of spaces between columns.
const gap = 3

func (t *Table) text(colour bool) string {
	widths := make([]int, len(t.Columns))
	for i, name := range t.Columns {
		widths[i] = utf8.RuneCountInString(name)
	}
	for _, row := range t.Rows {
		for i := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].shown()))
		}
	}
	var b strings.Builder
	title := make([]Cell, len(t.Columns))
	for i, name := range t.Columns {
		title[i].Text = name
	}
	writeRow(&b, title, widths, false)
	for _, row := range t.Rows {
		writeRow(&b, row, widths, colour)
	}
	if t.Summary != "" {
		b.WriteString(t.Summary + "\n")
	}
	return b.String()
}

func writeRow(b *strings.Builder, row []Cell, widths []int, colour bool) {
	for i := range row {
		text := row[i].shown()
		if colour && row[i].Level != Normal && row[i].Text != "" {
			b.WriteString(colours[row[i].Level] + text + endColour)
		} else {
			b.WriteString(text)
		}
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
		}
	}
	b.WriteByte('\n')
}

func (c *Cell) shown() string {
	if c.Text == "" {
		return "-"
	}
	return c.Text
}
