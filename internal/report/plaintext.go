package report

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// plainText returns sections as text for a terminal. Texts of records are printable, so that none changes its state.
func plainText(title string, sections []section) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", plain(title))
	for n := range sections {
		s := &sections[n]
		heading := plain(s.Heading)
		fmt.Fprintf(&b, "\n%s\n", heading)
		if s.Level == 2 {
			fmt.Fprintf(&b, "%s\n", strings.Repeat("-", utf8.RuneCountInString(heading)))
		}
		for _, p := range s.Paragraphs {
			fmt.Fprintf(&b, "%s\n", plain(p))
		}
		facts := &table{}
		for _, f := range s.Facts {
			facts.Rows = append(facts.Rows, row{Cells: []string{f[0] + ":", f[1]}})
		}
		writeColumns(&b, facts)
		if s.Table != nil {
			writeColumns(&b, s.Table)
		}
		for _, item := range s.List {
			fmt.Fprintf(&b, "- %s\n", plain(item))
		}
	}
	return b.Bytes()
}

// writeColumns writes a table with columns of equal width. The last one has any width.
func writeColumns(b *bytes.Buffer, t *table) {
	rows := t.Rows
	if len(t.Heads) > 0 {
		heads := row{}
		for _, head := range t.Heads {
			heads.Cells = append(heads.Cells, strings.ToUpper(head))
		}
		rows = append([]row{heads}, rows...)
	}
	var widths []int
	for _, r := range rows {
		for n, cell := range r.Cells {
			if n == len(widths) {
				widths = append(widths, 0)
			}
			widths[n] = max(widths[n], utf8.RuneCountInString(plain(cell)))
		}
	}
	for _, r := range rows {
		if r.Omitted != "" {
			fmt.Fprintf(b, "(%s)\n", plain(r.Omitted))
			continue
		}
		line := ""
		for n, cell := range r.Cells {
			text := plain(cell)
			line += text + strings.Repeat(" ", widths[n]-utf8.RuneCountInString(text)+2)
		}
		fmt.Fprintf(b, "%s\n", strings.TrimRight(line, " "))
	}
}
