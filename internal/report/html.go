package report

import (
	"bytes"
	"fmt"
	"strconv"

	"plimsoll.dev/plimsoll/internal/svg"
)

// safe is a part of a page in which every text is escaped. Package html/template would escape by itself. But
// it calls methods by their names, so that the linker keeps every method of every type: a fifth of the
// program, on each node.
type safe string

// escaped returns a text as a part of a page. A page is well-formed XML, so that its escape is that of a
// picture.
func escaped(text string) safe { return safe(svg.Escape(text)) }

// words returns a sentence as a part of a page. Texts of the recording are isolated, so that one in another
// direction does not change the order of its neighbours.
func words(sentence string) (all safe) {
	for _, part := range spans(sentence) {
		if part.IsQuoted {
			all += "<bdi>" + escaped(part.Text) + "</bdi>"
		} else {
			all += escaped(part.Text)
		}
	}
	return all
}

func number(n int) safe { return safe(strconv.Itoa(n)) }

// pageHead is the beginning of a page. Its policy forbids scripts and everything that is loaded, if an escape
// should ever be missing.
const pageHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<style>` + colours + chartText + chartStyle + pageStyle + `</style>
`

// writer writes a page.
type writer struct{ bytes.Buffer }

// add adds elements. Only safe texts are accepted.
func (w *writer) add(format string, args ...safe) {
	values := make([]any, len(args))
	for n, a := range args {
		values[n] = a
	}
	fmt.Fprintf(w, format, values...)
}

// HTML returns the report as a page.
func (i *Incident) HTML() []byte {
	return page(i.title(), i.document(), i.picture, "Made from a recording by plimsoll report incident.")
}

// page returns a page of sections, with the picture of each that has one. The note is its end.
func page(title string, sections []section, picture func(s *section, id int) safe, note safe) []byte {
	var w writer
	w.WriteString(pageHead)
	w.add("<title>%s</title>\n</head>\n<body>\n<header><h1>%s</h1></header>\n<main>\n", escaped(plain(title)), words(title))
	for n := range sections {
		w.section(&sections[n], n+1, picture(&sections[n], n+1))
	}
	w.add("</main>\n<footer><p class=\"note\">%s</p></footer>\n</body>\n</html>\n", note)
	return w.Bytes()
}

// section writes a section, with its picture if it has one.
func (w *writer) section(s *section, id int, picture safe) {
	w.add("<section>\n<h%s id=\"section-%s\">%s</h%s>\n", number(s.Level), number(id), words(s.Heading), number(s.Level))
	if picture != "" {
		w.add("<figure>\n%s", picture)
		for _, p := range s.Paragraphs {
			w.add("<figcaption>%s</figcaption>\n", words(p))
		}
		w.add("</figure>\n")
	} else {
		for _, p := range s.Paragraphs {
			w.add("<p>%s</p>\n", words(p))
		}
	}
	if len(s.Facts) > 0 {
		w.add("<dl>\n")
		for _, f := range s.Facts {
			w.add("<dt>%s</dt><dd>%s</dd>\n", escaped(f[0]), words(f[1]))
		}
		w.add("</dl>\n")
	}
	if s.Table != nil {
		w.table(s.Table, id)
	}
	if len(s.List) > 0 {
		w.add("<ul>\n")
		for _, item := range s.List {
			w.add("<li>%s</li>\n", words(item))
		}
		w.add("</ul>\n")
	}
	w.add("</section>\n")
}

// table writes a table that scrolls, by keyboard too.
func (w *writer) table(t *table, id int) {
	w.add("<div class=\"scroll\" role=\"region\" aria-labelledby=\"caption-%s\" tabindex=\"0\">\n<table>\n<caption id=\"caption-%s\">%s</caption>\n<thead><tr>", number(id), number(id), escaped(t.Caption))
	for _, head := range t.Heads {
		w.add("<th scope=\"col\">%s</th>", escaped(head))
	}
	w.add("</tr></thead>\n<tbody>\n")
	for _, r := range t.Rows {
		if r.Omitted != "" {
			w.add("<tr><td colspan=\"%s\">%s</td></tr>\n", number(len(t.Heads)), escaped(r.Omitted))
			continue
		}
		class, letter := safe(""), safe("")
		if r.Chosen {
			class = ` class="chosen"`
		}
		if r.Letter != "" {
			letter = `<span class="letter ` + escaped(classOf(r.Letter)) + `">` + escaped(r.Letter) + "</span> "
		}
		w.add("<tr%s>", class)
		for n, cell := range r.Cells {
			if n == 0 {
				w.add("<th scope=\"row\">%s%s</th>", letter, words(cell))
			} else {
				w.add("<td>%s</td>", words(cell))
			}
		}
		w.add("</tr>\n")
	}
	w.add("</tbody>\n</table>\n</div>\n")
}

// picture returns the picture of a section, or nothing. Package svg has escaped its texts.
func (i *Incident) picture(s *section, id int) safe {
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
	return safe(d.String())
}
