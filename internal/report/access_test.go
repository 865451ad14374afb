package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/demo/markup"
)

// The structural rules of WCAG 2.2 AA that a page without scripts may break.
func TestHTML_IsAccessible(t *testing.T) {
	counts := checkAccess(t, forms(t, read(t, leak(t), Options{}))["html"])
	if counts["svg"] != 2 || counts["table"] < 4 {
		t.Errorf("%d pictures and %d tables", counts["svg"], counts["table"])
	}
	if counts = checkAccess(t, string(TrialHTML(trialOf(t, trialFiles(t), 0)))); counts["svg"] != 0 || counts["table"] != 7 {
		t.Errorf("a trial: %d pictures and %d tables", counts["svg"], counts["table"])
	}
}

// checkAccess checks the rules of a page, and returns the number of its elements by name.
func checkAccess(t *testing.T, page string) map[string]int {
	t.Helper()
	list, ids, level, counts := markup.Elements(t, []byte(page)), map[string]string{}, 0, map[string]int{}
	for _, e := range list {
		counts[e.Name]++
		if id := e.Attr["id"]; id != "" {
			if ids[id] != "" || e.Text == "" {
				t.Errorf("two elements have the id %s, or it has no text", id)
			}
			ids[id] = e.Text
		}
	}
	for n, e := range list {
		switch e.Name {
		case "html":
			if e.Attr["lang"] != "en" {
				t.Errorf("html has lang %q", e.Attr["lang"])
			}
		case "h1", "h2", "h3", "h4", "h5", "h6":
			next := int(e.Name[1] - '0')
			if next > level+1 || e.Text == "" {
				t.Errorf("heading %s %q behind one of level %d", e.Name, e.Text, level)
			}
			level = next
		case "table":
			if list[n+1].Name != "caption" || list[n+1].Text == "" {
				t.Error("a table has no caption")
			}
		case "th":
			if s := e.Attr["scope"]; s != "col" && s != "row" {
				t.Errorf("a head of a table has the scope %q: %s", s, e.Text)
			}
		case "svg":
			if e.Attr["role"] != "img" || list[n+1].Name != "title" || list[n+2].Name != "desc" || list[n+1].Text == "" || list[n+2].Text == "" {
				t.Errorf("a picture has role %q, then %s and %s", e.Attr["role"], list[n+1].Name, list[n+2].Name)
			}
			if want := list[n+1].Attr["id"] + " " + list[n+2].Attr["id"]; e.Attr["aria-labelledby"] != want {
				t.Errorf("a picture is labelled by %q, want %q", e.Attr["aria-labelledby"], want)
			}
		case "div":
			if e.Attr["class"] == "scroll" && (e.Attr["tabindex"] != "0" || e.Attr["role"] != "region") {
				t.Error("what scrolls cannot be reached by keyboard, or has no role")
			}
		}
		for _, id := range strings.Fields(e.Attr["aria-labelledby"]) {
			if ids[id] == "" {
				t.Errorf("%s is labelled by %s, which does not exist or is empty", e.Name, id)
			}
		}
	}
	for name, want := range map[string]int{"html": 1, "h1": 1, "main": 1, "header": 1, "footer": 1, "script": 0, "a": 0, "img": 0, "link": 0, "iframe": 0, "object": 0} {
		if counts[name] != want {
			t.Errorf("%d elements %s, want %d", counts[name], name, want)
		}
	}
	if ids["section-1"] == "" || counts["title"] != 1+counts["svg"] {
		t.Errorf("%d titles", counts["title"])
	}
	return counts
}

// A page fits a narrow screen, refers to nothing and has no script.
func TestHTML_IsSelfContained(t *testing.T) {
	i := read(t, leak(t), Options{})
	for form, text := range forms(t, i) {
		outside := strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, needle := range []string{"://", "url(", "@import", "src=", "href", "<script", "javascript", "onload", "data:"} {
			if strings.Contains(outside, needle) {
				t.Errorf("%s contains %s", form, needle)
			}
		}
	}
	page := forms(t, i)["html"]
	for _, want := range []string{`<meta name="viewport" content="width=device-width, initial-scale=1"/>`, "prefers-color-scheme:dark", "color-scheme:light dark", ".scroll{overflow-x:auto}", "default-src 'none'"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if found := regexp.MustCompile(`[^-](width|height):\d+(px|rem|em)`).FindString(page); found != "" {
		t.Errorf("the page has a fixed size: %s", found)
	}
	list := markup.Elements(t, []byte(page))
	for n, e := range list {
		if e.Name != "svg" && e.Name != "rect" && (e.Attr["width"] != "" || e.Attr["style"] != "") || e.Name == "svg" && e.Attr["width"] != "" {
			t.Errorf("%s has a fixed width or a style of its own: %v", e.Name, e.Attr)
		}
		if e.Name == "table" && list[n-1].Attr["class"] != "scroll" {
			t.Error("a table does not scroll")
		}
	}
}

var property = regexp.MustCompile(`--([a-z]+):(#[0-9a-f]{6})`)

// luminance is the relative luminance of a colour by WCAG.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var sum float64
	for n, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(colour[1+2*n:3+2*n], 16, 8)
		if err != nil {
			t.Fatalf("%s: %v", colour, err)
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Texts have a contrast of 4.5 and lines one of 3, on light pages and on dark ones.
func TestStyle_HasContrast(t *testing.T) {
	light, dark, found := strings.Cut(colours, "@media")
	if !found {
		t.Fatal("no colours for dark pages")
	}
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		is := map[string]string{}
		for _, p := range property.FindAllStringSubmatch(text, -1) {
			is[p[1]] = p[2]
		}
		check := func(front, back string, least float64) {
			if is[front] == "" || is[back] == "" {
				t.Fatalf("%s: no colour %s or %s", scheme, front, back)
			}
			if got := contrast(t, is[front], is[back]); got < least {
				t.Errorf("%s: the contrast of %s to %s is %.2f, want %.1f", scheme, front, back, got, least)
			}
		}
		for _, front := range []string{"text", "muted", "limit"} {
			check(front, "page", 4.5)
		}
		check("text", "row", 4.5)
		for _, front := range []string{"curve", "limit", "evict", "dry", "mark", "held", "edge"} {
			check(front, "page", 3)
		}
		for n := range maxLayers + 1 {
			check("text", classOf(letter(n)), 4.5)
			check("edge", classOf(letter(n)), 3)
		}
	}
	if c := contrast(t, "#ffffff", "#000000"); math.Abs(c-21) > 1e-9 {
		t.Errorf("black on white is %f", c)
	}
	for n := range maxLayers + 1 {
		if class := "." + classOf(letter(n)) + "{"; !strings.Contains(chartStyle, class) || !strings.Contains(pageStyle, ".letter"+class) {
			t.Errorf("no style of layer %s", letter(n))
		}
	}
}

// Every text of a picture is inside of it, in its larger size too, and no colour stands alone: layers have
// letters, and marks have shapes.
func TestSVG_IsReadable(t *testing.T) {
	const widest = 0.62 * textSize // of a character, on average
	for about, data := range map[string][]byte{"a leak": leak(t), "many evictions": recorded(t, header(), evictions(30)...), "one check": recorded(t, header(), check(0, 1<<30)),
		"no memory": recorded(t, header(), usage(0, 0)), "two days": recorded(t, header(), check(0, 1<<30), check(48*3600, 1<<30)), "attacked": attacked(t, strings.Repeat("W", 300))} {
		picture := read(t, data, Options{}).SVG()
		list := markup.Elements(t, picture)
		root := list[0]
		if root.Attr["role"] != "img" || root.Attr["aria-labelledby"] != "title desc" || list[1].Name != "title" || list[1].Text == "" || list[2].Name != "desc" || list[2].Text == "" || list[3].Name != "style" {
			t.Errorf("%s: root %v, then %s, %s and %s", about, root.Attr, list[1].Name, list[2].Name, list[3].Name)
		}
		var width, height float64
		if _, err := fmt.Sscanf(root.Attr["viewBox"], "0 0 %f %f", &width, &height); err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Name != "text" {
				continue
			}
			x, y, length := e.Number(t, "x"), e.Number(t, "y"), widest*float64(len([]rune(e.Text)))
			switch e.Attr["text-anchor"] {
			case "end":
				x -= length
			case "middle":
				x -= length / 2
			}
			if x < -2 || x+length > width+2 || y < textSize-2 || y > height {
				t.Errorf("%s: outside of %.0f by %.0f: %+v", about, width, height, e)
			}
		}
	}
	text := string(read(t, leak(t), Options{}).SVG())
	for _, want := range []string{"A  shop/leaky, at most 280Mi", "1  evicted 12:00:40 shop/leaky", "MemoryPressure True: 10s", "Checks: 7 periodic (long), 1 early (short)", `class="evict"`, `class="limit"`, `class="layer a"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

// Programs for slides and drawings know no custom properties: they would show a black picture.
func TestPictureStyle_HasColoursItself(t *testing.T) {
	style := pictureStyle()
	if strings.Contains(style, "--") {
		t.Errorf("a custom property in %s", style)
	}
	light, dark, _ := strings.Cut(style, "@media (prefers-color-scheme")
	for scheme, want := range map[string]string{light: ".page{fill:#ffffff}", dark: ".page{fill:#0d1117}"} {
		if !strings.Contains(scheme, want) || !strings.Contains(scheme, ".i{fill:#") {
			t.Errorf("no %s, or no last layer in %s", want, scheme)
		}
	}
}
