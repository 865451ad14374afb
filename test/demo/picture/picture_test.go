package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/demo/markup"
)

const captured = "\x1b[1mNode\x1b[0m a<b & \"c\"\n" +
	" 0.8s \x1b[32m████\x1b[0m\x1b[90m░░\x1b[0m\x1b[1m⊖\x1b[0m\x1b[31m█\x1b[0m 90Mi\n" +
	"┌─┐ \x1b[31;1m✗ evict\x1b[0m \x1b[32m✓\x1b[39m done\n\n\n"

func rendered(t *testing.T, text string) []markup.Element {
	t.Helper()
	lines, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	svg, err := render(lines, `"a" & <b>`)
	if err != nil {
		t.Fatal(err)
	}
	return markup.Elements(t, svg)
}

func TestRender_Text(t *testing.T) {
	list := rendered(t, captured)
	var words []string
	for _, e := range list {
		if e.Name != "text" || e.Attr["textLength"] == "" {
			continue
		}
		words = append(words, e.Text)
		if want := float64(cellWidth * len(e.Text)); e.Number(t, "textLength") != want {
			t.Errorf("%q is %s pixels long, want %g", e.Text, e.Attr["textLength"], want)
		}
		if column := (e.Number(t, "x") - margin) / cellWidth; column != float64(int(column)) {
			t.Errorf("%q begins within a column", e.Text)
		}
	}
	if got, want := strings.Join(words, " "), `Node a<b & "c" 0.8s 90Mi evict done`; got != want {
		t.Errorf("words %q, want %q", got, want)
	}
	if list[1].Name != "title" || list[1].Text != `"a" & <b>` {
		t.Errorf("title %+v", list[1])
	}
}

func TestRender_Shapes(t *testing.T) {
	var bars []markup.Element
	marks := 0
	for _, e := range rendered(t, captured) {
		switch {
		case e.Name == "rect" && e.Attr["height"] == strconv.Itoa(cellHeight-6):
			bars = append(bars, e)
		case e.Name == "circle" && e.Attr["stroke"] == emphasis:
			marks++
			if x := e.Number(t, "cx"); x != margin+12.5*cellWidth {
				t.Errorf("the line is at %g, not in the middle of column 13", x)
			}
		}
	}
	if len(bars) != 3 || marks != 1 {
		t.Fatalf("%d bars, want 3; %d marks, want 1", len(bars), marks)
	}
	for i, want := range []struct {
		column, cells float64
		fill          string
	}{{6, 4, colors[green]}, {10, 2, colors[gray]}, {13, 1, colors[red]}} {
		b := bars[i]
		if b.Number(t, "x") != margin+want.column*cellWidth || b.Number(t, "width") != want.cells*cellWidth || b.Attr["fill"] != want.fill {
			t.Errorf("bar %d: %v, want %+v", i, b.Attr, want)
		}
	}
}

func TestRender_StaysInside(t *testing.T) {
	list := rendered(t, strings.Repeat("x█⊖┼", 30)+"\n"+strings.Repeat("line\n", 40))
	width, height := list[0].Number(t, "width"), list[0].Number(t, "height")
	if want := float64(2*margin + 120*cellWidth); width != want {
		t.Errorf("width %g, want %g", width, want)
	}
	for _, e := range list {
		switch e.Name {
		case "text":
			if e.Number(t, "x") < 0 || e.Number(t, "y") > height || e.Attr["textLength"] != "" && e.Number(t, "x")+e.Number(t, "textLength") > width-margin {
				t.Errorf("outside: %+v", e)
			}
		case "rect":
			if e.Number(t, "x")+e.Number(t, "width") > width || e.Number(t, "y")+e.Number(t, "height") > height {
				t.Errorf("outside: %+v", e)
			}
		}
	}
}

func TestRender_UniformWidth(t *testing.T) {
	if a, b := rendered(t, "short"), rendered(t, strings.Repeat("x", minColumns)); a[0].Attr["width"] != b[0].Attr["width"] {
		t.Errorf("width %s and %s", a[0].Attr["width"], b[0].Attr["width"])
	}
	if _, err := render(nil, ""); err == nil {
		t.Error("no text is rendered")
	}
}

func TestParse_RefusesUnknown(t *testing.T) {
	for _, text := range []string{"a\rb", "\x1b[2Ja", "\x1b[38;5;1mred", "\x1b[3", "tab\t", "wide 漢", "combining e\u0301", "\xff"} {
		if lines, err := parse(text); err == nil {
			t.Errorf("parse(%q) = %v, want an error", text, lines)
		} else if !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("parse(%q): %v, without its line", text, err)
		}
	}
}

func TestRun_WritesThePicture(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out.svg")
	if err := os.WriteFile(in, []byte(captured), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(in, out, "make demo", "a demo"); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, e := range markup.Elements(t, svg) {
		words = append(words, e.Text)
	}
	if text := strings.Join(strings.Fields(strings.Join(words, " ")), " "); !strings.Contains(text, "a demo a demo $ make demo Node") {
		t.Errorf("text %q", text)
	}
	for _, bad := range []string{"", "\n\n", "\x07"} {
		if err := os.WriteFile(in, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(in, out, "make demo", ""); err == nil {
			t.Errorf("no error for a picture of %q", bad)
		}
	}
	if again, err := os.ReadFile(out); err != nil || string(again) != string(svg) {
		t.Errorf("after an error the picture has changed (%v)", err)
	}
}

// TestDemoPicture_IsReadable checks the committed picture of `make pictures`:
// its size, text and notation.
func TestDemoPicture_IsReadable(t *testing.T) {
	svg, err := os.ReadFile("../../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	list := markup.Elements(t, svg)
	if w, h := list[0].Number(t, "width"), list[0].Number(t, "height"); w > 1000 || h > 1000 {
		t.Errorf("%g x %g pixels, at most 1000 x 1000: font size %d shrinks with it", w, h, fontSize)
	}
	var words []string
	fills := map[string]bool{}
	for _, e := range list {
		words = append(words, e.Text)
		fills[e.Attr["fill"]] = fills[e.Attr["fill"]] || e.Name == "rect"
	}
	text := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	for _, want := range []string{"make demo", "evict jobs/leaky", "Ranking 1. jobs/leaky", "Outcome jobs/leaky evicted", "still running: shop/web, shop/db, jobs/batch", "OOM kills by the kernel: 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
	for _, c := range []color{green, yellow, red} {
		if !fills[colors[c]] {
			t.Errorf("no bar has the colour %s", colors[c])
		}
	}
	for _, unit := range []string{"Ki", "MiB", "GiB"} {
		if strings.Contains(text, unit) {
			t.Errorf("%s in %q: amounts of memory are in Mi", unit, text)
		}
	}
}
