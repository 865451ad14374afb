package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/simulate"
)

// difference returns the first difference between the product and the model, or "".
func difference(f *file) string {
	s, faults := simulate.Parse(f.text())
	if err := faults.Err(); err != nil {
		return "fault: " + err.Error()
	}
	var out bytes.Buffer
	err := s.WriteJSON(&out)
	w, fault := f.run()
	if w.unsure && err != nil {
		return ""
	}
	if (err != nil) != (fault != nil) {
		return fmt.Sprintf("product %v, model %v", err, fault)
	}
	if err != nil {
		return ""
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if out.Len() == 0 {
		got = nil
	}
	var want []string
	for _, l := range w.lines {
		want = append(want, l.text)
	}
	if w.unsure {
		want = slices.DeleteFunc(want, func(l string) bool { return when(l) >= w.now })
		got = slices.DeleteFunc(got, func(l string) bool { return when(l) >= w.now })
	}
	return parts(got, want)
}

func when(l string) time.Duration {
	at, err := time.ParseDuration(strings.Split(l, `"`)[3])
	if err != nil {
		panic(err)
	}
	return at
}

// parts returns the lines around the first difference.
func parts(got, want []string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	if i == len(got) && i == len(want) {
		return ""
	}
	show := func(lines []string) string {
		return strings.Join(lines[min(i, len(lines)):min(i+6, len(lines))], "\n  ")
	}
	before := ""
	if i > 0 {
		before = strings.Join(got[max(0, i-3):i], "\n  ")
	}
	return fmt.Sprintf("after\n  %s\nproduct:\n  %s\nmodel:\n  %s", before, show(got), show(want))
}

// without returns the file without its i-th optional part.
func without(f *file, i int) *file {
	g := *f
	switch {
	case i < len(f.events):
		g.events = slices.Delete(slices.Clone(f.events), i, i+1)
	case i < len(f.events)+len(f.pods):
		i -= len(f.events)
		g.pods = slices.Delete(slices.Clone(f.pods), i, i+1)
	default:
		i -= len(f.events) + len(f.pods)
		g.nodes = slices.Delete(slices.Clone(f.nodes), i, i+1)
	}
	return &g
}

// smallest removes the parts of a file that the difference does not need.
func smallest(f *file) *file {
	for again := true; again; {
		again = false
		for i := 0; i < len(f.events)+len(f.pods)+len(f.nodes); i++ {
			g := without(f, i)
			if d := difference(g); d != "" && !strings.HasPrefix(d, "fault") {
				f, again = g, true
				break
			}
		}
	}
	return f
}

// The output for random clusters equals that of a reference model, written from the contract without
// knowledge of the product. REFERENCE_CLUSTERS sets the number of clusters, REFERENCE_FROM the
// first seed.
func TestScenario_EqualsReferenceModel(t *testing.T) {
	from, clusters := number(t, "REFERENCE_FROM", 0), number(t, "REFERENCE_CLUSTERS", 1000)
	bad, kinds, unsure := 0, map[string]int{}, 0
	for seed := from; seed < from+clusters && bad < 3; seed++ {
		f := generate(seed)
		if d := difference(f); d != "" {
			bad++
			t.Errorf("seed %d: %s", seed, d)
			if !strings.HasPrefix(d, "fault") {
				f = smallest(f)
				t.Errorf("smallest: %s\n%s", f.text(), difference(f))
			}
		}
		w, _ := f.run()
		for _, l := range w.lines {
			kinds[strings.Split(l.text, `"`)[7]]++
		}
		if w.unsure {
			unsure++
		}
	}
	if clusters < 1000 {
		return
	}
	for _, kind := range []string{"zone", "condition", "taint", "label", "pod-not-ready", "evict", "cancel", "clear-pod"} {
		if kinds[kind] < 100 {
			t.Errorf("got %d lines of kind %s in %d clusters, want at least 100", kinds[kind], kind, clusters)
		}
	}
	if unsure > int(clusters)/10 {
		t.Errorf("%d of %d clusters were not compared to their end, want at most a tenth", unsure, clusters)
	}
	t.Log(kinds, unsure)
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
