package simulate_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/simulate"
)

var update = flag.Bool("update", false, "write the expected lines of examples/scenarios: commit only what you understand")

const scenarios = "../examples/scenarios"

func run(t *testing.T, data []byte) (lines, text string) {
	t.Helper()
	s, faults := simulate.Parse(data)
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	var asJSON, asText bytes.Buffer
	if err := s.WriteJSON(&asJSON); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteText(&asText); err != nil {
		t.Fatal(err)
	}
	return asJSON.String(), asText.String()
}

// TestExamples_PrintExpectedLines compares examples/scenarios with the files beside them.
func TestExamples_PrintExpectedLines(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(scenarios, "*.yaml"))
	if err != nil || len(files) < 24 {
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
			got, text := run(t, data)
			golden := strings.TrimSuffix(file, ".yaml") + ".expected.jsonl"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(want), "\n")
			for i := range max(len(gotLines), len(wantLines)) {
				if line(gotLines, i) != line(wantLines, i) {
					t.Errorf("line %d\n%swant\n%s", i+1, line(gotLines, i), line(wantLines, i))
				}
			}
			readable(t, text)
		})
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)\n"
}

// readable checks for parts that text output must not contain.
func readable(t *testing.T, text string) {
	t.Helper()
	for _, sign := range []string{"%!", "<nil>", "\t", "{", "0x"} {
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
	data, err := os.ReadFile(filepath.Join(scenarios, "oom-between-checks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, text := run(t, data)
	for _, want := range []string{
		"thresholds: memory.available<100Mi",
		"6.2s  (early check) memory.available 40Mi of 4Gi   [MemoryPressure]",
		"1. default/leak", "uses 1184Mi, 1056Mi above its request, priority 0",
		"2. default/steady", "uses 1900Mi, within its request of 2Gi",
		"EVICT default/leak for memory.available, grace period 1s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
