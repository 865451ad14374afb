package output_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/output"
)

// things is a document with nodes.
type things struct {
	document.Header
	Items []string `json:"items"`
}

func (l *things) Table(age func(time.Duration) string) *document.Table {
	t := &document.Table{Columns: []document.Column{{Name: "NAME"}, {Name: "MORE", Wide: true}, {Name: "AGE"}}, Summary: "2 things"}
	for _, item := range l.Items {
		t.Rows = append(t.Rows, []string{item, "", age(90 * time.Minute)})
	}
	return t
}

func (l *things) Nodes() []string { return l.Items }

func list() *things { return &things{document.NewHeader("ThingList"), []string{"a", "longer<&>"}} }

// printer returns the printer of a command line.
func printer(t *testing.T, nodes bool, args ...string) (*output.Printer, error) {
	t.Helper()
	cmd := &cobra.Command{}
	flags := output.AddTableFlags(cmd, nodes)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return flags.Printer()
}

func TestPrint_FormatsOfKubectl(t *testing.T) {
	for args, want := range map[string]string{
		"":                           "NAME        AGE\na           90m\nlonger<&>   90m\n2 things\n",
		"-o=wide":                    "NAME        MORE     AGE\na           <none>   90m\nlonger<&>   <none>   90m\n2 things\n",
		"--no-headers":               "a           90m\nlonger<&>   90m\n",
		"-o=json":                    "{\n    \"apiVersion\": \"plimsoll.dev/v1alpha1\",\n    \"kind\": \"ThingList\",\n    \"items\": [\n        \"a\",\n        \"longer<&>\"\n    ]\n}\n",
		"-o=yaml":                    "apiVersion: plimsoll.dev/v1alpha1\nitems:\n- a\n- longer<&>\nkind: ThingList\n",
		"-o=name":                    "node/a\nnode/longer<&>\n",
		"-o=jsonpath={.items[0]}":    "a",
		"-o=go-template={{.kind}}":   "ThingList",
		"--template={{.apiVersion}}": "plimsoll.dev/v1alpha1",
	} {
		p, err := printer(t, true, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		var out strings.Builder
		if err := p.Print(&out, list()); err != nil || out.String() != want {
			t.Errorf("%q: %v\n%s\nwant\n%s", args, err, out.String(), want)
		}
	}
}

func TestPrinter_RefusesOtherFormats(t *testing.T) {
	for args, want := range map[string]string{
		"-o=xml":            `--output: "xml": must be one of wide, json, yaml, kyaml, go-template`,
		"-o=name":           "must be one of wide, json", // the document has no nodes
		"-o=jsonpath={.a":   "--output: error parsing jsonpath",
		"-o=go-template":    "no template given",
		"-o=jsonpath-file=": "no template given",
	} {
		if _, err := printer(t, false, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// kubectl's printer of tables drops the error.
func TestPrint_ReturnsErrorOfOutput(t *testing.T) {
	for _, format := range []string{"", "wide", "json", "yaml", "name", "jsonpath={.kind}"} {
		p, err := printer(t, true, "--output="+format)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Print(full{}, list()); !errors.Is(err, errFull) {
			t.Errorf("%q: got %v", format, err)
		}
	}
}
