package report

import (
	"fmt"
	"io"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// Markdown writes the tables of the report. Returns the error of the writer.
func (r *Report) Markdown(to io.Writer) error {
	var b strings.Builder
	b.WriteString("# Results of node-pressure-bench\n\n")
	for _, s := range r.Sections {
		s.markdown(&b)
	}
	if len(r.Pairs) > 0 {
		b.WriteString("## Equal runs\n\nTwo runs with one seed have the same plan, and differ by the noise of the machine. Each row has the smallest " +
			"and the largest value of all runs, and the largest difference of two equal ones.\n\n")
		pairsTable(&b, r.Pairs)
	}
	if r.Margin != nil {
		r.Margin.markdown(&b)
	}
	b.WriteString("## What the figures do not show\n\n")
	for _, text := range limits {
		fmt.Fprintf(&b, "- %s\n", escape(text))
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func (s *Section) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## %s\n\nThe node is %s. Medians, with the worst value in brackets.\n\n", escape(s.Machine), s.Node)
	header := append([]string{"contestant", "incidents", "not counted"}, figureNames()...)
	row(b, header...)
	rule(b, len(header))
	for _, c := range s.Contestants {
		if !c.Began() {
			continue
		}
		row(b, append([]string{c.Name, fmt.Sprint(c.Incidents), fmt.Sprint(c.Uncounted())}, figures(&c.Total)...)...)
	}
	b.WriteString("\n")
	header = []string{"incident"}
	for _, c := range s.Contestants {
		header = append(header, c.Name)
	}
	row(b, header...)
	rule(b, len(header))
	for _, i := range s.Incidents {
		cells := []string{i.Name}
		for _, c := range i.Cells {
			cells = append(cells, c.short())
		}
		row(b, cells...)
	}
	b.WriteString("\n")
	for _, i := range s.Incidents {
		s.incident(b, i)
	}
	for _, c := range s.Contestants {
		if c.Version != "" {
			fmt.Fprintf(b, "- %s: version %s\n", escape(c.Name), escape(c.Version))
		}
		if c.Documented != "" {
			fmt.Fprintf(b, "- %s: configuration: %s\n", escape(c.Name), escape(c.Documented))
		}
		for _, why := range c.Unavailable {
			fmt.Fprintf(b, "- %s did not run: %s\n", escape(c.Name), escape(why))
		}
	}
	b.WriteString("\n")
}

// incident writes the table of one incident, a row for each contestant that ran.
func (s *Section) incident(b *strings.Builder, i *Incident) {
	fmt.Fprintf(b, "### %s\n\n%s. %s\n\n", escape(i.Name), escape(i.Title), escape(i.Expectation()))
	header := append([]string{"contestant", "not counted"}, figureNames()...)
	row(b, header...)
	rule(b, len(header))
	for _, c := range i.Cells {
		if n := c.Runs + c.Invalid + c.Failed; n > 0 {
			row(b, append([]string{c.Contestant, fmt.Sprint(n - c.Runs)}, figures(&c.Cell)...)...)
		}
	}
	b.WriteString("\n")
}

// figureNames are the headers of figures.
func figureNames() []string {
	names := []string{"won", "saved", "kernel kills", "right victim", "bystanders", "regrets"}
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	return names
}

// figures are the columns of a cell.
func figures(c *score.Cell) []string {
	all := []string{
		fraction(c.Verdicts[score.Won], c.Runs), fraction(c.Saved, c.Runs), fmt.Sprint(c.KernelKills),
		fraction(c.RightVictim, c.Runs), fmt.Sprint(c.Bystanders), fmt.Sprint(c.Regrets),
	}
	for _, m := range metrics {
		all = append(all, m.Show(c))
	}
	return all
}

// short is a cell of the matrix.
func (c *Cell) short() string {
	switch {
	case !c.Ran() && c.Verdicts() == "":
		return "–"
	case !c.Ran():
		return c.Verdicts()
	case c.Verdicts() == "":
		return c.Won()
	}
	return c.Won() + ": " + c.Verdicts()
}

func row(b *strings.Builder, cells ...string) {
	for i := range cells {
		cells[i] = escape(cells[i])
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func rule(b *strings.Builder, columns int) {
	b.WriteString("|" + strings.Repeat("---|", columns) + "\n")
}

// escape makes a text inert in Markdown: it may come from the results of others.
var escape = strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ", "\r", " ", "`", "'", "[", "\\[").Replace
