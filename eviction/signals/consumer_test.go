package signals

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintableName_IsBoundedAndPrintable(t *testing.T) {
	long := strings.Repeat("\xe2\x82\xac", 2000) // three bytes each
	for name, want := range map[string]string{
		"/data":                    "/data",
		"/a b/\u00fc":              "/a b/\u00fc",
		"/x\x1b[2J\n\x00y":         "/x?[2J??y",
		"/\u202egnp.exe":           "/?gnp.exe",
		"/\xff\xfe":                "/??",
		strings.Repeat("a", 128):   strings.Repeat("a", 128),
		strings.Repeat("a", 4<<10): strings.Repeat("a", 62) + "..." + strings.Repeat("a", 62),
	} {
		if got := PrintableName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for cut := range 6 { // runes are not cut in two
		got := PrintableName(strings.Repeat("x", cut) + long)
		if len(got) > maxName || !utf8.ValidString(got) || strings.Contains(got, "?") {
			t.Errorf("got %q of %d bytes", got, len(got))
		}
	}
}

func TestPrintableText_IsBounded(t *testing.T) {
	text := strings.Repeat("a\x1b", 150)
	if got, want := PrintableText(text, len(text)), strings.Repeat("a?", 150); got != want {
		t.Errorf("got %q", got)
	}
	if got, want := PrintableText(text, 11), "a?a?..."; len(got) > 11 || !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

func TestPrintableLines_CleansEachLine(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	if got, want := PrintableLines("a\x1b[2J\r\n\tb\n"), "a?[2J?\n    b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := strings.Split(PrintableLines(long+"\n"+long), "\n"); len(got) != 2 || len(got[0]) > maxLine || len(got[1]) > maxLine {
		t.Errorf("got %d lines, the first of %d bytes", len(got), len(got[0]))
	}
}

func TestDiffersFrom_ReportsOrderAndGrowth(t *testing.T) {
	of := func(names string, amounts ...Amount) *Consumption {
		c := &Consumption{}
		for i, name := range strings.Fields(names) {
			c.Largest = append(c.Largest, Consumer{Name: name, Amount: amounts[i]})
		}
		return c
	}
	before := of("a b c d", 100, 50, 20, 10)
	for about, c := range map[string]struct {
		now  *Consumption
		want bool
	}{
		"the same":                   {of("a b c d", 100, 50, 20, 10), false},
		"grown by less than half":    {of("a b c d", 150, 75, 30, 10), false},
		"the largest grown by half":  {of("a b c d", 151, 50, 20, 10), true},
		"the third grown by half":    {of("a b c d", 100, 50, 31, 10), true},
		"the fourth grown":           {of("a b c d", 100, 50, 20, 19), false},
		"another largest":            {of("b a c d", 101, 100, 20, 10), true},
		"another third":              {of("a b d c", 100, 50, 21, 20), true},
		"shrunk":                     {of("a b c", 10, 5, 2), false},
		"fewer":                      {of("a b", 100, 50), false},
		"none":                       {of(""), false},
		"another one below the rest": {of("a b c x", 100, 50, 20, 15), false},
	} {
		if got := c.now.DiffersFrom(before); got != c.want {
			t.Errorf("%s: got %v", about, got)
		}
	}
	if none, one := of(""), of("a", 1); none.DiffersFrom(none) || !one.DiffersFrom(none) || !of("a b", 1, 1).DiffersFrom(one) {
		t.Error("a first consumer is no difference, or none is one")
	}
	if dir, path := (&Consumption{Largest: []Consumer{{Name: "/data", Kind: ConsumerDirectory}}}), (&Consumption{Largest: []Consumer{{Name: "/data", Kind: ConsumerHostPath}}}); !dir.DiffersFrom(path) {
		t.Error("another kind is no difference")
	}
}
