package simulate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/simulate"
)

// compare runs the comparison of a file.
func compare(t *testing.T, data []byte) (lines, text string) {
	t.Helper()
	s, faults := simulate.Parse(data)
	if err := faults.Err(); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	var asJSON, asText bytes.Buffer
	c := s.(*simulate.NodeScenario).Compare()
	if err := c.WriteJSON(&asJSON); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteText(&asText); err != nil {
		t.Fatal(err)
	}
	return asJSON.String(), asText.String()
}

// decoded parses the lines of a comparison.
func decoded(t *testing.T, lines string) (different []simulate.Difference, s simulate.Summary) {
	t.Helper()
	all := slices.Collect(strings.Lines(lines))
	strict := func(line string, into any) {
		d := json.NewDecoder(strings.NewReader(line))
		if d.DisallowUnknownFields(); d.Decode(into) != nil {
			t.Fatalf("not a %T: %s", into, line)
		}
	}
	for _, line := range all[:len(all)-1] {
		var d simulate.Difference
		strict(line, &d)
		different = append(different, d)
	}
	last := simulate.SummaryLine{Summary: &s}
	strict(all[len(all)-1], &last)
	return different, s
}

// comparedTexts has the texts of all comparisons, each below a line with the name of its example.
const comparedTexts = "testdata/compared.txt"

// TestCompare_HelpsExamples compares examples/scenarios/helps-* with the files beside them, with
// testdata/compared.txt, and with totals that follow from their comments.
func TestCompare_HelpsExamples(t *testing.T) {
	totals := map[string]string{ // different steps; evictions, spared pods of helps; of kubelet
		"helps-at-the-boundary":        "4; 3 2; 4 0",
		"helps-daemon-outside-of-pods": "3; 2 2; 3 0",
		"helps-disk-together":          "2; 2 1; 4 0",
		"helps-hog-behind-tiny-pods":   "3; 2 1; 3 0",
		"helps-host-path-writer":       "15; 1 15; 16 0",
		"helps-images-apart":           "2; 1 1; 2 0",
		"helps-inodes-and-pids":        "3; 3 1; 4 0",
		"helps-minimum-reclaim":        "3; 3 0; 3 0",
		"helps-protected-and-stuck":    "3; 3 0; 3 0",
		"helps-soft-and-early":         "4; 3 0; 3 0",
	}
	texts := ""
	for _, name := range sortedNames(totals) {
		file := filepath.Join(scenarios, name)
		data, err := os.ReadFile(file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		lines, text := compare(t, data)
		readable(t, text)
		texts += "== " + name + "\n" + text
		golden(t, file+".compared.jsonl", lines)
		_, s := decoded(t, lines)
		if got := fmt.Sprintf("%d; %d %d; %d %d", s.Different, s.Helps.Evictions, len(s.Helps.Spared), s.Kubelet.Evictions, len(s.Kubelet.Spared)); got != totals[name] {
			t.Errorf("%s: %s, want %s", name, got, totals[name])
		}
	}
	golden(t, comparedTexts, texts)
	if files, _ := filepath.Glob(filepath.Join(scenarios, "helps-*.yaml")); len(files) != len(totals) {
		t.Errorf("%d examples of the choice helps, %d in the table", len(files), len(totals))
	}
}

func sortedNames(of map[string]string) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// golden compares a text with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(data), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if line(gotLines, i) != line(wantLines, i) {
			t.Errorf("%s, line %d\n%swant\n%s", file, i+1, line(gotLines, i), line(wantLines, i))
		}
	}
}

// TestCompare_EqualsTwoRuns compares the comparison of random nodes with the outputs of two runs that
// differ in the choice. Equal outputs are compared without a difference.
func TestCompare_EqualsTwoRuns(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	agreed := 0
	for n := range *choicesFlag / 6 {
		c := randomChoiceCase(rand.New(rand.NewPCG(seed, n)))
		var outputs, comparisons, texts [2]string
		for i, choice := range []string{"helps", "kubelet"} {
			c.choice = choice
			outputs[i], _ = run(t, c.file())
			comparisons[i], texts[i] = compare(t, c.file())
		}
		if comparisons[0] != comparisons[1] || texts[0] != texts[1] {
			t.Fatalf("seed %d, case %d: the comparison depends on the choice of the file:\n%s\n%s", seed, n, comparisons[0], comparisons[1])
		}
		different, s := decoded(t, comparisons[0])
		if outputs[0] == outputs[1] {
			if agreed++; len(different) > 0 || s.Different > 0 || !strings.Contains(texts[0], fmt.Sprintf("\n0 of %d steps differ\n", len(c.steps))) {
				t.Fatalf("seed %d, case %d: the runs are equal, but compared:\n%s%s", seed, n, comparisons[0], texts[0])
			}
		}
		helps, kubelet := linesOf(t, outputs[0]), linesOf(t, outputs[1])
		for i := range helps {
			if !slices.Equal(helps[i].Conditions, kubelet[i].Conditions) {
				t.Fatalf("seed %d, case %d: the conditions depend on the choice:\n%s%s", seed, n, outputs[0], outputs[1])
			}
		}
		want := expectDifferences(helps, kubelet)
		for i := range different {
			if different[i].Helps.Reason == "" || different[i].Kubelet.Reason == "" {
				t.Fatalf("seed %d, case %d: no reason in %+v", seed, n, different[i])
			}
			different[i].Helps.Reason, different[i].Kubelet.Reason = "", ""
		}
		if !reflect.DeepEqual(different, want) {
			t.Fatalf("seed %d, case %d: got\n%+v\nwant\n%+v\n%s%s", seed, n, different, want, outputs[0], outputs[1])
		}
		total := simulate.Summary{Steps: len(c.steps), Different: len(want), Helps: c.expectTotal(helps, kubelet), Kubelet: c.expectTotal(kubelet, helps)}
		if !reflect.DeepEqual(s, total) {
			t.Fatalf("seed %d, case %d: got\n%+v\nwant\n%+v\n%s%s%s", seed, n, s, total, c.file(), outputs[0], outputs[1])
		}
	}
	if agreed < 3 {
		t.Errorf("the choices agreed on %d nodes, want at least 3", agreed)
	}
}

// fullDisk is a writer that writes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestCompare_ReturnsErrorOfWriter(t *testing.T) {
	s, faults := simulate.Parse([]byte(head + "steps: []"))
	if err := faults.Err(); err != nil {
		t.Fatal(err)
	}
	c := s.(*simulate.NodeScenario).Compare()
	for name, write := range map[string]func(io.Writer) error{"text": c.WriteText, "json": c.WriteJSON} {
		if err := write(fullDisk{}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: error %v, want that of the writer", name, err)
		}
	}
}

func linesOf(t *testing.T, output string) (lines []simulate.Line) {
	t.Helper()
	for text := range strings.Lines(output) {
		var l simulate.Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// expectDifferences compares two outputs line by line, without what a choice does not decide.
func expectDifferences(helps, kubelet []simulate.Line) (different []simulate.Difference) {
	for i := range helps {
		var of [2]simulate.Chosen
		for k, l := range []*simulate.Line{&helps[i], &kubelet[i]} {
			of[k] = simulate.Chosen{Conditions: l.Conditions, Signal: l.Signal, Evicted: l.Evicted, Failed: l.Failed}
		}
		if !reflect.DeepEqual(of[0], of[1]) {
			different = append(different, simulate.Difference{At: helps[i].At, Helps: of[0], Kubelet: of[1]})
		}
	}
	return different
}

// expectTotal computes the totals of a run from its output and the file.
func (c *choiceCase) expectTotal(lines, other []simulate.Line) simulate.Total {
	evicted := func(lines []simulate.Line) (pods []string) {
		for i := range lines {
			if e := lines[i].Evicted; e != nil && !slices.Contains(pods, e.Pod) {
				pods = append(pods, e.Pod)
			}
		}
		return pods
	}
	without := func(pods, others []string) []string {
		left := []string{}
		for _, p := range pods {
			if !slices.Contains(others, p) {
				left = append(left, p)
			}
		}
		return left
	}
	t := simulate.Total{Evicted: without(evicted(lines), nil), EvictedOnly: without(evicted(lines), evicted(other))}
	lasted := map[string]time.Duration{}
	var spared []string
	for i := range lines {
		l := &lines[i]
		if l.Evicted != nil {
			t.Evictions++
		}
		for _, name := range l.Conditions {
			if i+1 < len(lines) {
				lasted[name] += 10 * time.Second
			}
		}
		if c.exhausted(i, len(l.Reclaimed) > 0) {
			t.ExhaustedSteps++
		}
		for _, pod := range l.Ranking {
			if l.Evicted != nil && l.Evicted.Pod == pod {
				break
			}
			failed := slices.ContainsFunc(l.Failed, func(f simulate.FailedLine) bool { return f.Pod == pod })
			if !failed && !c.protects(pod) && !slices.Contains(spared, pod) {
				spared = append(spared, pod)
			}
		}
	}
	t.Spared = without(spared, t.Evicted)
	t.Conditions = map[string]string{}
	for _, name := range []string{"DiskPressure", "MemoryPressure", "PIDPressure"} {
		t.Conditions[name] = fmt.Sprintf("%ds", lasted[name]/time.Second)
	}
	return t
}

func (c *choiceCase) protects(pod string) bool {
	return slices.ContainsFunc(c.pods, func(p choicePod) bool { return "default/"+p.name == pod && p.protected != "" })
}

// exhausted applies the definition of the glossary: nothing is available, less than half of a hard
// threshold, or memory with exhaustion imminent: within 500 ms at the rate since the step before.
func (c *choiceCase) exhausted(i int, collected bool) bool {
	s := c.steps[i]
	threshold := c.value.of(s.capacity)
	available := s.available
	if collected && s.after >= 0 {
		available = s.after
	}
	switch {
	case c.soft:
		return false
	case available <= 0 || 2*available < threshold:
		return true
	case c.ofDisk() || c.signal == "pid.available" || i == 0 || s.restart || s.available >= threshold:
		return false
	}
	fell := c.steps[i-1].available - s.available
	return fell > 0 && 20*s.available <= fell
}
