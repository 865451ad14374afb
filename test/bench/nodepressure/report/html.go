package report

import (
	_ "embed"
	"html/template"
	"io"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"limits":      func() []string { return limits },
	"figureNames": figureNames,
	"figures":     figures,
	"line":        newLine,
	"cell":        func(c *Contestant) *score.Cell { return &c.Total },
	"of":          func(c *Cell) *score.Cell { return &c.Cell },
}).Parse(pageText))

// HTML writes the report as one page. Returns the error of the writer.
func (r *Report) HTML(to io.Writer) error { return page.Execute(to, r) }
