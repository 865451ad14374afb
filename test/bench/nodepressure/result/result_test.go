package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

func example() *Result {
	return &Result{
		Format: Format, Arena: "cgroup", Seed: 7, Machine: Machine{Name: "m", Cgroup: 2},
		Incident:   Incident{Named: Named{Name: "some", Title: "t", Hash: "h"}, Expect: score.Expect{Exhausts: true, MayKill: []string{"hog"}, Needed: 1}},
		Contestant: Contestant{Named: Named{Name: "one", Title: "t", Hash: "h"}},
		Observation: &score.Observation{
			Total: 1 << 30, Threshold: 100 << 20, Pods: []score.Pod{{Name: "calm", Group: "calm", Deaths: []score.Death{{At: 1, Signal: 9}}}},
			Heartbeat: score.Heartbeat{Alive: true}, Neighbour: score.Neighbour{Quiet: score.Latency{Requests: 1}}, Witness: score.Witness{Samples: 1},
			Contestant: &score.Contestant{},
		},
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestParse_ComputesScoreAgain checks that a file can not claim a better score than its observation.
func TestParse_ComputesScoreAgain(t *testing.T) {
	r := example()
	r.Score = &score.Score{Verdict: score.Won, Saved: true}
	got, err := Parse(encode(t, r))
	if err != nil || got.Score.Verdict != score.Wrong {
		t.Errorf("got %+v, %v, want %s: an innocent pod ended", got, err, score.Wrong)
	}
}

func TestParse_RefusesOthers(t *testing.T) {
	for name, change := range map[string]func(*Result){
		"format":  func(r *Result) { r.Format = "other/2" },
		"name":    func(r *Result) { r.Incident.Name = "../../etc/x" },
		"arena":   func(r *Result) { r.Arena = "a/b" },
		"nothing": func(r *Result) { r.Observation = nil },
		"both":    func(r *Result) { r.Unavailable = "because" },
		"failed":  func(r *Result) { r.Failed = "because" },
		"reasons": func(r *Result) { r.Observation, r.Unavailable, r.Failed = nil, "because", "because" },
	} {
		r := example()
		change(r)
		if got, err := Parse(encode(t, r)); err == nil {
			t.Errorf("%s: accepted %+v", name, got)
		}
	}
	for _, text := range []string{"", "[]", `{"format":"` + Format + `","colour":1}`} {
		if got, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q: accepted %+v", text, got)
		}
	}
}

func TestWrite_ReadsBack(t *testing.T) {
	dir := t.TempDir()
	r := example()
	if err := r.Write(filepath.Join(dir, "m")); err != nil {
		t.Fatal(err)
	}
	other := example()
	other.Observation, other.Unavailable = nil, "no reason"
	other.Seed = 8
	if err := other.Write(filepath.Join(dir, "m")); err != nil {
		t.Fatal(err)
	}
	all, err := Read(dir)
	if err != nil || len(all) != 2 || all[0].Name() != "some.one.cgroup.v2.7.json" || all[1].Unavailable == "" || all[1].Score != nil {
		t.Fatalf("got %d results, %v", len(all), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json"), make([]byte, maxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a large file: got %v", err)
	}
}

func TestCollect_SeparatesLines(t *testing.T) {
	var in, others bytes.Buffer
	in.WriteString("booting\n")
	in.Write(append(encode(t, example()), '\n'))
	in.WriteString("the end\n")
	dir := t.TempDir()
	n, err := Collect(&in, &others, dir)
	if err != nil || n != 1 || others.String() != "booting\nthe end\n" {
		t.Fatalf("%d results, %v, others %q", n, err, others.String())
	}
	if all, err := Read(dir); err != nil || len(all) != 1 {
		t.Errorf("read %d, %v", len(all), err)
	}
	later := example()
	later.Seed = 8
	n, err = Collect(io.MultiReader(strings.NewReader(`{"format":"x"}`+"\n"), bytes.NewReader(append(encode(t, later), '\n'))), &others, dir)
	if err == nil || !strings.Contains(err.Error(), "line 1") || n != 1 {
		t.Errorf("%d results, %v: want the one after a line that is no result, and an error that names the line", n, err)
	}
}

// TestDone_IdentifiesValidRuns checks what a continued series leaves out, and that it does not replace results of another
// machine.
func TestDone_IdentifiesValidRuns(t *testing.T) {
	dir := t.TempDir()
	if done, err := Done(filepath.Join(dir, "none")); err != nil || len(done) != 0 {
		t.Errorf("no folder: got %v, %v", done, err)
	}
	invalid := example()
	invalid.Seed, invalid.Observation = 9, &score.Observation{Heartbeat: score.Heartbeat{Alive: true}} // without a witness
	if err := errors.Join(example().Write(dir), invalid.Write(dir)); err != nil {
		t.Fatal(err)
	}
	if done, err := Done(dir); err != nil || len(done) != 1 || !done[example().Identity()] {
		t.Errorf("got %v, %v: want the valid run", done, err)
	}
	foreign := example()
	foreign.Machine.Name += " 2"
	if err := foreign.Write(dir); err == nil || !strings.Contains(err.Error(), "another folder") {
		t.Errorf("a result of another machine was replaced: %v", err)
	}
}

// Each attempt at a run remains: what has no verdict is not hidden by a later attempt, and no verdict by another one.
func TestWrite_KeepsEveryAttempt(t *testing.T) {
	dir := t.TempDir()
	missing, failed, invalid := example(), example(), example()
	missing.Observation, missing.Unavailable, missing.Contestant.Version = nil, "not installed", ""
	failed.Observation, failed.Failed = nil, "it does not start"
	invalid.Observation = &score.Observation{Heartbeat: score.Heartbeat{Alive: true}}
	for _, r := range []*Result{missing, failed, missing, invalid, example(), example(), missing} {
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Read(dir)
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprint(r.Unavailable, r.Failed, r.Valid()))
	}
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{"false", "it does not startfalse", "true", "true"}) {
		t.Errorf("%q, %v", got, err)
	}
	other := example()
	other.Contestant.Version += "2"
	if err := other.Write(dir); err == nil || !strings.Contains(err.Error(), "another folder") {
		t.Errorf("a result of another version was written beside: %v", err)
	}
	if done, err := Done(dir); err != nil || len(done) != 1 {
		t.Errorf("%v, %v", done, err)
	}
}

func TestDescribe_NamesTheMachine(t *testing.T) {
	m := Describe("mine", 2, false)
	if m.Processors == 0 || m.Memory == 0 || m.Kernel == "" {
		t.Errorf("got %+v", m)
	}
	if text := m.String(); !strings.HasPrefix(text, "mine: ") || !strings.HasSuffix(text, "without CAP_SYS_RESOURCE") {
		t.Errorf("got %s", text)
	}
}

func FuzzParse(f *testing.F) {
	text, err := json.Marshal(example())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(r.Name(), "/\x00") || r.Observation != nil && r.Score == nil {
			t.Errorf("accepted %+v", r)
		}
	})
}
