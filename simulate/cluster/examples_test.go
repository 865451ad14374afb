package cluster_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/simulate/cluster"
)

const clusters = "../../examples/clusters"

const head = "apiVersion: plimsoll.dev/v1alpha1\nkind: ClusterScenario\n"

// read parses a scenario without faults.
func read(t *testing.T, data string) *cluster.Scenario {
	t.Helper()
	s, faults := parse(data)
	if err := faults.Err(); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return s
}

func parse(data string) (*cluster.Scenario, strictyaml.Faults) {
	var faults strictyaml.Faults
	root := strictyaml.Parse([]byte(data), &faults)
	if faults.Err() != nil {
		return nil, faults
	}
	return cluster.Read(root, &faults), faults
}

// output returns the output of a scenario, which must be equal in two runs.
func output(t *testing.T, s *cluster.Scenario) (lines, text string) {
	t.Helper()
	var all [4]bytes.Buffer
	for i := range all {
		write := s.WriteJSON
		if i >= 2 {
			write = s.WriteText
		}
		if err := write(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if all[0].String() != all[1].String() || all[2].String() != all[3].String() {
		t.Error("a second run prints other bytes")
	}
	return all[0].String(), all[2].String()
}

// TestExamples_PrintExpectedLines compares examples/clusters with the files beside them.
func TestExamples_PrintExpectedLines(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(clusters, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(data, []byte("# ")) {
				t.Error("the file does not begin with a comment")
			}
			lines, text := output(t, read(t, string(data)))
			for _, a := range assertions(t, strings.TrimSuffix(file, ".yaml")+".expect.json") {
				if found := a.check(t, decoded(t, lines)); found != "" {
					t.Errorf("%+v\n\tbut: %s", a, found)
				}
			}
			readable(t, text)
		})
	}
}

func assertions(t *testing.T, file string) (all []assertion) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d assertions, %v", file, len(all), err)
	}
	return all
}

// readable checks for parts that text output must not contain.
func readable(t *testing.T, text string) {
	t.Helper()
	for _, sign := range []string{"%!", "<nil>", "\t", "{", "0x", "-62135596800", "2000-01-01"} {
		if strings.Contains(text, sign) {
			t.Errorf("%q in the text:\n%s", sign, text)
		}
	}
	for l := range strings.Lines(text) {
		if strings.TrimRight(l, " \n") != strings.TrimRight(l, "\n") {
			t.Errorf("blanks at the end of %q", l)
		}
	}
}

func TestWriteText_DescribesDecisions(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(clusters, "zone-outage.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, text := output(t, read(t, string(data)))
	for _, want := range []string{
		"10 nodes, 3 pods\n",
		"\n     55s  a-3: stopped\n",
		"\n     90s  → a-3: DiskPressure, MemoryPressure, PIDPressure, Ready become Unknown (NodeStatusUnknown): last heartbeat at 50s, 40s ago\n",
		"          → zone \"eu/eu-1\" is PartialDisruption: 4 of its 6 nodes not ready; evictions begin on no further node there\n",
		"          → a-0: eviction of default/second is called off: no NoExecute taint is left\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestWriteText_DescribesDeletionOfEvictedPods(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(clusters, "evicted-pods.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, text := output(t, read(t, string(data)))
	for _, want := range []string{
		"\nwhat is left of pods that agents evicted is deleted after 30m0s\n",
		"\n   1900s  → a-0: what is left of default/hog is deleted: evicted by the node's agent at 100s, 1800s ago\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestDocs_ExamplePrintsShownOutput(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "## ClusterScenario")
	_, after, _ = strings.Cut(after, "```yaml\n")
	file, after, _ := strings.Cut(after, "```")
	_, after, _ = strings.Cut(after, "```\n")
	want, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("docs/reference/scenarios.md has no example of a ClusterScenario")
	}
	if _, text := output(t, read(t, file)); text != want {
		t.Errorf("docs/reference/scenarios.md shows\n%s\nbut it prints\n%s", want, text)
	}
}
