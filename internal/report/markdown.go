package report

import (
	"bytes"
	"fmt"
	"strings"
)

// Markdown returns the report as Markdown. It has no pictures: a table has the values of each signal over time.
func (i *Incident) Markdown() []byte { return markdownOf(i.title(), i.document(), i.valueTable) }

// markdownOf returns sections as Markdown, with a table in place of the picture of a history.
func markdownOf(title string, sections []section, values func(*history) *table) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", markdown(title))
	for _, s := range sections {
		fmt.Fprintf(&b, "\n%s %s\n", strings.Repeat("#", s.Level), markdown(s.Heading))
		if s.history == nil && !s.memory {
			for _, p := range s.Paragraphs {
				fmt.Fprintf(&b, "\n%s\n", markdown(p))
			}
		}
		if s.history != nil {
			writeTable(&b, values(s.history))
		}
		if len(s.Facts) > 0 {
			b.WriteByte('\n')
		}
		for _, f := range s.Facts {
			fmt.Fprintf(&b, "- **%s:** %s\n", f[0], markdown(f[1]))
		}
		if s.Table != nil {
			writeTable(&b, s.Table)
		}
		if len(s.List) > 0 {
			b.WriteByte('\n')
		}
		for _, item := range s.List {
			fmt.Fprintf(&b, "- %s\n", markdown(item))
		}
	}
	return b.Bytes()
}

// markdown returns a sentence with the texts of the recording as code. Within code only a backtick has a
// meaning, and a vertical bar in a table.
func markdown(sentence string) string {
	var b strings.Builder
	for _, part := range spans(sentence) {
		if part.IsQuoted {
			b.WriteString("`" + strings.NewReplacer("`", "'", "|", "\u00a6").Replace(part.Text) + "`")
		} else {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}

func writeTable(b *bytes.Buffer, t *table) {
	fmt.Fprintf(b, "\n%s:\n\n| %s |\n|%s\n", t.Caption, strings.Join(t.Heads, " | "), strings.Repeat("---|", len(t.Heads)))
	for _, r := range t.Rows {
		cells := make([]string, len(t.Heads))
		if r.Omitted != "" {
			cells[0] = r.Omitted
		}
		for n, c := range r.Cells {
			cells[n] = markdown(c)
		}
		if r.Letter != "" {
			cells[0] = r.Letter + " " + cells[0]
		}
		if r.Chosen {
			cells[0] = "**" + cells[0] + "**"
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// valueRows is the maximum number of rows of a table of values.
const valueRows = 24

// valueTable returns the smallest and the largest value of a signal in parts of the time.
func (i *Incident) valueTable(h *history) *table {
	t := &table{Caption: fmt.Sprintf("Available in parts of the time, at most %d", valueRows), Heads: []string{"From", "Least", "Most"}}
	unit := h.signal.Definition().Unit
	const each = columns / valueRows
	for n := range valueRows {
		least, most, known := h.available.extremesOf(n*each, (n+1)*each)
		if known {
			from := min(least.at, most.at)
			t.Rows = append(t.Rows, row{Cells: []string{i.clock(i.begin.Add(from)), amountOf(least, unit), amountOf(most, unit)}})
		}
	}
	return t
}
