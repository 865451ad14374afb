package clusterstatus

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/output"
	"plimsoll.dev/plimsoll/internal/vitals"
	"plimsoll.dev/plimsoll/test/harness/generated"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const mebi = 1 << 20

// agent returns a healthy, armed agent, changed by change.
func agent(change func(*Agent)) *Agent {
	a := &Agent{
		Version: "0.3.0", Pod: "plimsoll-system/plimsoll-agent-x7k2p", Armed: true, Reason: "the ConfigMap is set to armed", Thresholds: "5f2a91c07d11",
		Readings: []vitals.Reading{
			{Signal: signals.MemoryAvailable, Known: true, Available: 4096 * mebi, Threshold: 100 * mebi},
			{Signal: signals.MemoryAvailable, Known: true, Available: 4096 * mebi, Threshold: 300 * mebi, Soft: true},
			{Signal: signals.PIDAvailable, Known: true, Available: 31999, Threshold: 300},
		},
		LastCheck: noon.Add(-3 * time.Second), Renewed: noon.Add(-4 * time.Second), Duration: 40 * time.Second,
	}
	if change != nil {
		change(a)
	}
	return a
}

// memory sets the available memory.
func memory(available signals.Amount) func(*Agent) {
	return func(a *Agent) { a.Readings[0].Available, a.Readings[1].Available = available, available }
}

func node(name string, a *Agent, conditions ...string) Node {
	return Node{Name: name, Created: noon.Add(-30 * 24 * time.Hour), Conditions: conditions, Agent: a}
}

// nodes has a node for every attention, in an order that is no order.
func nodes() []Node {
	return []Node{
		node("w-10", agent(nil)),
		node("w-9", agent(nil)),
		node("near", agent(memory(500*mebi))),
		node("disarmed", agent(func(a *Agent) { a.Armed, a.Reason = false, "the Node's annotation is set to disarmed" })),
		node("refused", agent(func(a *Agent) {
			a.Armed, a.Reason, a.Findings = false, "refused: clock-skew-large", []string{"clock-skew-large", "right-missing"}
		})),
		node("not-ready", agent(nil), NotReady),
		{Name: "gone", Agent: agent(nil)},
		node("pressed", agent(func(a *Agent) {
			memory(83 * mebi)(a)
			a.Conditions = []string{"MemoryPressure"}
			a.LastEviction = vitals.Eviction{Time: noon.Add(-3 * time.Minute), Pod: "shop/cart-1", Cause: "memory.available"}
		}), "MemoryPressure"),
		node("blind", agent(func(a *Agent) { a.Readings[2] = vitals.Reading{Signal: signals.PIDAvailable} })),
		node("missing", nil),
		node("silent", agent(func(a *Agent) {
			memory(83 * mebi)(a)
			a.Renewed, a.Conditions = noon.Add(-41*time.Second), []string{"DiskPressure"}
		})),
		node("unprotected", agent(func(a *Agent) {
			memory(-2 * mebi)(a)
			a.Armed, a.Reason = false, "the disarm file exists"
		})),
		node("unprotected-2", nil, "DiskPressure", NotReady),
	}
}

// A small threshold looks far away although its condition is True.
func TestRow_ShowsSignalOfCondition(t *testing.T) {
	n := node("n", agent(func(a *Agent) {
		a.Readings = []vitals.Reading{{Signal: signals.MemoryAvailable, Known: true, Available: 92 * mebi, Threshold: mebi},
			{Signal: signals.PIDAvailable, Known: true, Available: 9000, Threshold: 2000}}
	}), "MemoryPressure")
	if got := NewList([]Node{n}, noon).Items[0].tightest(); got != "memory.available 92Mi >= 1Mi" {
		t.Errorf("the row shows %q", got)
	}
}

func TestList_MostUrgentFirst(t *testing.T) {
	want := "unprotected pressure-unprotected, unprotected-2 pressure-unprotected, silent agent-silent, missing agent-missing, blind signal-unknown, " +
		"pressed pressure, gone node-missing, not-ready node-not-ready, refused findings, near near-threshold, disarmed agent-disarmed, w-9 none, w-10 none"
	for range 2 {
		reversed := nodes()
		slices.Reverse(reversed)
		for _, given := range [][]Node{nodes(), reversed} {
			var got []string
			for _, r := range NewList(given, noon).Items {
				got = append(got, r.Name+" "+r.Attention)
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("got  %s\nwant %s", text, want)
			}
		}
	}
}

// Every attention is documented, in the order of the table.
func TestAttentions_AreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "kubectl-plimsoll.md"))
	if err != nil {
		t.Fatal(err)
	}
	place := bytes.Index(text, []byte("| `attention` | meaning"))
	for _, a := range attentions {
		at := bytes.Index(text[place:], []byte("| `"+a.code+"` |"))
		if at < 0 {
			t.Errorf("docs/reference/kubectl-plimsoll.md does not have `%s` in its place", a.code)
		}
		place += max(at, 0)
	}
}

func TestList_Formats(t *testing.T) {
	for _, f := range []string{"", "wide", "json", "yaml", "name"} {
		compare(t, "status."+f, NewList(nodes(), noon), "--output="+f)
	}
	compare(t, "status.no-headers", NewList(nodes(), noon), "--no-headers")
	compare(t, "status.none", NewList(nil, noon))
	compare(t, "status.none.json", NewList(nil, noon), "--output=json")
	compare(t, "status.jsonpath", NewList(nodes(), noon), `-o=jsonpath={range .items[?(@.agent=="silent")]}{.name}{" "}{.attention}{"\n"}{end}`)
	compare(t, "status.go-template", NewList(nodes(), noon), `--template={{range .items}}{{.name}} {{.attention}}{{"\n"}}{{end}}`)
}

// The example of the how-to page is what the program prints for these nodes.
func TestList_ExampleOfDocument(t *testing.T) {
	example := []Node{
		node("pool-a-1", agent(nil)), node("pool-a-2", agent(memory(340*mebi))),
		node("pool-a-10", agent(func(a *Agent) {
			memory(83 * mebi)(a)
			a.Conditions = []string{"MemoryPressure"}
			a.LastEviction = vitals.Eviction{Time: noon.Add(-3 * time.Second), Pod: "shop/cart-6d5f9-x2k4p", Cause: "memory.available"}
		})),
		node("pool-b-1", agent(func(a *Agent) {
			memory(61 * mebi)(a)
			a.Armed, a.Reason, a.Conditions = false, "the Node's annotation is set to disarmed", []string{"MemoryPressure"}
		})),
		node("pool-b-2", agent(func(a *Agent) { a.Renewed = noon.Add(-4 * time.Minute) })),
	}
	out := printed(t, NewList(example, noon))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "see-the-cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	const indent = "       "
	if want := indent + strings.ReplaceAll(strings.TrimSuffix(out, "\n"), "\n", "\n"+indent); !strings.Contains(string(page), want) {
		t.Errorf("docs/how-to/see-the-cluster.md does not have this output:\n%s", want)
	}
}

func TestVersions_Formats(t *testing.T) {
	agents := []*Agent{agent(nil), agent(func(a *Agent) { a.Version = "0.10.0" }), agent(func(a *Agent) { a.Renewed = noon.Add(-time.Hour) }), agent(nil)}
	client := Build{Version: "0.3.0", Revision: "abc", Go: "go1.26.8", Platform: "darwin/arm64"}
	for _, f := range []string{"", "wide", "json"} {
		compare(t, "versions."+f, NewVersions(client, agents, noon), "--output="+f)
	}
	compare(t, "versions.client", NewVersions(client, nil, noon))
}

// printed returns a document as the client prints it.
func printed(t *testing.T, d document.Document, args ...string) string {
	t.Helper()
	cmd := &cobra.Command{}
	flags := output.AddTableFlags(cmd, true)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	printer, err := flags.Printer()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printer.Print(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// compare compares a document with its golden file.
func compare(t *testing.T, name string, d document.Document, args ...string) {
	t.Helper()
	got := printed(t, d, args...)
	generated.CompareFile(t, filepath.Join("testdata", strings.TrimSuffix(name, ".")+".golden"), *update, got)
}

// A node is under pressure by a hard threshold before its condition is set, and not by a soft one.
func TestPressed_ByHardThresholds(t *testing.T) {
	for available, want := range map[signals.Amount]string{99 * mebi: "pressure", 100 * mebi: "near-threshold", 299 * mebi: "near-threshold", 599 * mebi: "near-threshold", 600 * mebi: "none"} {
		if got := rowOf(&Node{Name: "n", Created: noon, Agent: agent(memory(available))}, noon).Attention; got != want {
			t.Errorf("%dMi: %s, want %s", available/mebi, got, want)
		}
	}
}

// Without a positive threshold a signal is never near it.
func TestRatio_WithoutThreshold(t *testing.T) {
	for r, want := range map[vitals.Reading]bool{
		{Known: true, Available: 0}: false, {Known: true, Available: -1}: true,
		{Known: true, Available: 1<<63 - 1, Threshold: 1<<63 - 1}: true, {}: false,
	} {
		if near(&r) != want {
			t.Errorf("%+v: near is %t", r, !want)
		}
	}
}
