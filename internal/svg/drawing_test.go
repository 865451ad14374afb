package svg_test

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/svg"
	"plimsoll.dev/plimsoll/test/demo/markup"
)

const hostile = "</text><script>\"'&\x00\x1b]]>\xff\u2028"

func TestDrawing_EscapesTexts(t *testing.T) {
	var d svg.Drawing
	d.Begin(&svg.Root{Width: 20, Height: 10, ID: "-1", Title: hostile, Description: hostile})
	d.Text(1, 2, "small", "end", hostile)
	d.End()
	list := markup.Elements(t, d.Bytes())
	if len(list) != 4 {
		t.Fatalf("%d elements, want the root, its title, its description and a text:\n%s", len(list), d.Bytes())
	}
	for _, e := range list[1:] {
		if want := strings.TrimSpace("</text><script>\"'&\uFFFD\uFFFD]]>\uFFFD\u2028"); e.Text != want {
			t.Errorf("%s: got %q, want %q", e.Name, e.Text, want)
		}
	}
	if root := list[0].Attr; root["viewBox"] != "0 0 20 10" || root["width"] != "" || root["aria-labelledby"] != "title-1 desc-1" || list[1].Attr["id"] != "title-1" || list[2].Attr["id"] != "desc-1" {
		t.Errorf("root %v, title %v, description %v", root, list[1].Attr, list[2].Attr)
	}
	if text := list[3].Attr; text["x"] != "1.0" || text["y"] != "2.0" || text["class"] != "small" || text["text-anchor"] != "end" {
		t.Errorf("text %v", text)
	}
}

func TestDrawing_FixedSizeAndStyle(t *testing.T) {
	var d svg.Drawing
	d.Begin(&svg.Root{Width: 20, Height: 10, Fixed: true, Style: "text{fill:red}"})
	d.End()
	list := markup.Elements(t, d.Bytes())
	if root := list[0].Attr; root["width"] != "20" || root["height"] != "10" || root["role"] != "img" || root["aria-labelledby"] != "title desc" {
		t.Errorf("root %v", root)
	}
	if style := list[3]; style.Name != "style" || style.Text != "text{fill:red}" {
		t.Errorf("style %+v", style)
	}
}
