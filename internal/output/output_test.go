package output_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/output"
)

// list is a document with objects.
type list struct {
	output.Header
	Items []string `json:"items"`
}

func (l *list) Table(wide bool) *output.Table {
	t := &output.Table{Columns: []string{"NAME", "STATE"}, Summary: "2 things"}
	if wide {
		t.Columns = append(t.Columns, "MORE")
	}
	for i, item := range l.Items {
		row := []output.Cell{{Text: item}, {Text: "ok"}}
		if i > 0 {
			row[1] = output.Cell{Text: "gone ü", Level: output.Critical}
		}
		if wide {
			row = append(row, output.Cell{Level: output.Warning}) // nothing to warn of
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (l *list) Names() []string { return []string{"thing/a", "thing/longer"} }

func things() *list {
	return &list{output.NewHeader("ThingList"), []string{"a", "longer<&>"}}
}

func TestFormats_MeanTheSame(t *testing.T) {
	const text = "NAME        STATE\na           ok\nlonger<&>   gone ü\n2 things\n"
	for name, want := range map[string]string{
		"":     text,
		"wide": "NAME        STATE    MORE\na           ok       -\nlonger<&>   gone ü   -\n2 things\n",
		"json": "{\n  \"apiVersion\": \"plimsoll.dev/v1alpha1\",\n  \"kind\": \"ThingList\",\n  \"items\": [\n    \"a\",\n    \"longer<&>\"\n  ]\n}\n",
		"yaml": "apiVersion: plimsoll.dev/v1alpha1\nitems:\n- a\n- longer<&>\nkind: ThingList\n",
		"name": "thing/a\nthing/longer\n",
	} {
		f, err := output.Parse(name, output.Formats())
		if err != nil {
			t.Fatal(err)
		}
		var plain, coloured bytes.Buffer
		if err := errors.Join(f.Write(&plain, things(), false), f.Write(&coloured, things(), true)); err != nil || plain.String() != want {
			t.Errorf("%q: %v\n%s\nwant\n%s", name, err, plain.String(), want)
		}
		removed := strings.NewReplacer("\x1b[31m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(coloured.String())
		if isTable := name == "" || name == "wide"; removed != want || isTable != strings.Contains(coloured.String(), "\x1b[31mgone ü\x1b[0m") || strings.Contains(coloured.String(), "\x1b[33m") {
			t.Errorf("%q in colour: %q", name, coloured.String())
		}
	}
}

func TestParse_RefusesOtherFormats(t *testing.T) {
	for _, name := range []string{"jsonpath", "name", "Wide"} {
		if f, err := output.Parse(name, []output.Format{output.Wide, output.JSON}); err == nil || err.Error() != "must be one of wide, json" || f != output.Text {
			t.Errorf("%s: got %q, %v", name, f, err)
		}
	}
}

func TestNatural_ComparesNumbers(t *testing.T) {
	want := []string{"", "1", "2", "10", "a", "w", "w-01", "w-1", "w-2", "w-2-3", "w-10", "w-10-2", "w-10a", "w-99999999999999999999", "w-100000000000000000000", "x1y2", "x1y10"}
	for i, a := range want {
		for j, b := range want {
			if got := output.Natural(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("Natural(%q, %q) = %d", a, b, got)
			}
		}
	}
}

// The order is total for random names, so that sorting is defined.
func TestNatural_IsTransitive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = "01a-"[r.IntN(4)]
		}
		return string(b)
	}
	for range 100_000 {
		a, b, c := name(), name(), name()
		if output.Natural(a, b) != -output.Natural(b, a) || output.Natural(a, b) == 0 != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
		if output.Natural(a, b) < 0 && output.Natural(b, c) < 0 && output.Natural(a, c) >= 0 {
			t.Fatalf("%q, %q, %q", a, b, c)
		}
	}
}

func TestAge_HasOneUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h",
		47 * time.Hour: "47h", 48 * time.Hour: "2d", 729 * 24 * time.Hour: "729d", 731 * 24 * time.Hour: "2y",
	} {
		if got := output.Age(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestPlain_RemovesControlCharacters(t *testing.T) {
	if got, want := output.Plain("nodes \"\x1b[2J\u202e\xff\u009b\" not found:\nü\r"), "nodes \"?[2J???\" not found:\nü?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := output.Plain(strings.Repeat("x", 1<<20)); len(got) > 20<<10 {
		t.Errorf("%d bytes", len(got))
	}
}
