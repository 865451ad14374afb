package report

import (
	"bytes"
	"fmt"
	"html/template"

	"plimsoll.dev/plimsoll/internal/svg"
)

// page is the template of a report as HTML. The policy in its head forbids scripts and everything that is
// loaded, if an escape should ever be missing.
const page = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>{{plain .Title}}</title>
<style>` + colours + chartStyle + pageStyle + `</style>
</head>
<body>
<header><h1>{{template "words" words .Title}}</h1></header>
<main>
{{- range .Sections}}
<section>
{{- if eq .Level 2}}
<h2 id="section-{{.ID}}">{{template "words" words .Heading}}</h2>
{{- else}}
<h3 id="section-{{.ID}}">{{template "words" words .Heading}}</h3>
{{- end}}
{{- if .Picture}}
<figure>
{{.Picture -}}
{{- range .Paragraphs}}<figcaption>{{template "words" words .}}</figcaption>
{{- end}}
</figure>
{{- else}}{{range .Paragraphs}}
<p>{{template "words" words .}}</p>
{{- end}}{{end}}
{{- with .Facts}}
<dl>
{{- range .}}
<dt>{{index . 0}}</dt><dd>{{template "words" words (index . 1)}}</dd>
{{- end}}
</dl>
{{- end}}
{{- if .Table}}{{template "table" .}}{{end}}
{{- with .List}}
<ul>
{{- range .}}
<li>{{template "words" words .}}</li>
{{- end}}
</ul>
{{- end}}
</section>
{{- end}}
</main>
<footer><p class="note">Made from a recording by plimsoll report incident.</p></footer>
</body>
</html>
{{define "words"}}{{range .}}{{if .IsQuoted}}<bdi>{{.Text}}</bdi>{{else}}{{.Text}}{{end}}{{end}}{{end}}
{{define "table"}}
<div class="scroll" role="region" aria-labelledby="caption-{{.ID}}" tabindex="0">
<table>
<caption id="caption-{{.ID}}">{{.Table.Caption}}</caption>
<thead><tr>{{range .Table.Heads}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>
{{- $columns := len .Table.Heads}}
{{- range .Table.Rows}}
{{- if .Omitted}}
<tr><td colspan="{{$columns}}">{{.Omitted}}</td></tr>
{{- else}}
<tr{{if .Chosen}} class="chosen"{{end}}>
{{- $letter := .Letter}}
{{- range $n, $cell := .Cells}}
{{- if eq $n 0}}<th scope="row">{{with $letter}}<span class="letter {{lower .}}">{{.}}</span> {{end}}{{template "words" words $cell}}</th>
{{- else}}<td>{{template "words" words $cell}}</td>
{{- end}}
{{- end}}</tr>
{{- end}}
{{- end}}
</tbody>
</table>
</div>
{{- end}}`

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"words": spans, "plain": plain, "lower": classOf}).Parse(page))

// view is a section with what a page needs beside it.
type view struct {
	section
	ID      int
	Picture template.HTML
}

// HTML returns the report as a page.
func (i *Incident) HTML() ([]byte, error) {
	data := struct {
		Title    string
		Sections []view
	}{Title: i.title()}
	for n, s := range i.document() {
		data.Sections = append(data.Sections, view{s, n + 1, i.picture(&s, n+1)})
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, &data); err != nil {
		return nil, fmt.Errorf("render the report as HTML: %w", err)
	}
	return b.Bytes(), nil
}

// picture returns the picture of a section, or nothing. Package svg has escaped its texts.
func (i *Incident) picture(s *section, id int) template.HTML {
	var d svg.Drawing
	root := svg.Root{Width: chartWidth, ID: fmt.Sprintf("-%d", id), Title: s.Heading}
	switch {
	case s.history != nil:
		root.Height, root.Description = signalHeight, i.describeSignal(s.history)
		d.Begin(&root)
		i.drawSignal(&d, s.history, 0)
	case s.memory:
		root.Height, root.Description = memoryHeight, i.describeMemory()
		d.Begin(&root)
		i.drawMemory(&d, 0)
	default:
		return ""
	}
	d.End()
	return template.HTML(d.String())
}
