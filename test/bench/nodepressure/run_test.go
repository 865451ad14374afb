package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/referee"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

func TestLoad_SetsNode(t *testing.T) {
	for node, want := range map[string]int64{"": 1 << 30, "256MiB": 256 << 20, "1MiB": 0, "3GiB": 0, "some": 0} {
		b := &bench{options: options{node: node, incidents: "dips", contestants: "kernel"}}
		err := b.load()
		if (want == 0) != (err != nil) || err == nil && (b.incidents[0].Node != want || strings.Contains(b.incidents[0].Hash, "-") != (node != "")) {
			t.Errorf("-node %q: %v, want a node of %d bytes", node, err, want)
		}
	}
	if err := (&bench{options: options{incidents: "none"}}).load(); err == nil {
		t.Error("loaded an incident that does not exist")
	}
}

// TestResult_IsComplete checks that the file of a run can be read back with what its report needs.
func TestResult_IsComplete(t *testing.T) {
	b := &bench{options: options{incidents: "dips,respawn-loop", contestants: "kernel,earlyoom", arena: "cgroup"}, versions: map[string]string{"earlyoom": "1.7"}}
	if err := b.load(); err != nil {
		t.Fatal(err)
	}
	cells := b.cells()
	if len(cells) != 4 {
		t.Fatalf("%d cells, want 4", len(cells))
	}
	if why := cells[1].unavailable("cgroup", 2); !strings.Contains(why, "only machine") {
		t.Errorf("%s: got %q", cells[1].contestant.Name, why)
	}
	r := b.result(cells[3], 7)
	if r.Incident.Name != "respawn-loop" || r.Incident.Expect.Needed != 4 || len(r.Incident.Reenacts) == 0 || r.Incident.Cause == "" ||
		r.Contestant.Version != "1.7" || !strings.Contains(r.Contestant.Documented, "earlyoom(1)") || r.Incident.Hash == "" || r.Contestant.Hash == "" || r.Seed != 7 {
		t.Errorf("got %+v", r)
	}
	r.Unavailable = "because"
	if text := summary(r); text != "earlyoom against respawn-loop: not run: because" {
		t.Error(text)
	}
	r.Unavailable, r.Failed = "", "it broke"
	if text := summary(r); text != "earlyoom against respawn-loop: failed: it broke" {
		t.Error(text)
	}
	r.Failed, r.Score = "", &score.Score{Verdict: score.Lost, Why: "the kernel killed", Least: 3 << 20}
	if text := summary(r); text != "earlyoom against respawn-loop: lost, the kernel killed; least left 3Mi" {
		t.Error(text)
	}
	r.Observation = &score.Observation{}
	if err := r.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
	if r.Format != result.Format {
		t.Errorf("format %q", r.Format)
	}
}

// TestHas_RepeatsOnlyWhatIsMissing writes a result, and asks for it and for others.
func TestHas_RepeatsOnlyWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	run := func(change func(*bench, *result.Result)) (*bench, *result.Result) {
		b := &bench{options: options{incidents: "dips", contestants: "kernel", arena: "cgroup", out: dir, proceed: true}, machine: result.Machine{Name: "m", Cgroup: 2}}
		if err := b.load(); err != nil {
			t.Fatal(err)
		}
		r := b.result(b.cells()[0], 7)
		change(b, r)
		if err := b.loadDone(); err != nil {
			t.Fatal(err)
		}
		return b, r
	}
	_, written := run(func(*bench, *result.Result) {})
	written.Observation = &score.Observation{Neighbour: score.Neighbour{Quiet: score.Latency{Requests: 1}}, Witness: score.Witness{Samples: 1}, Heartbeat: score.Heartbeat{Alive: true}}
	if err := written.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*bench, *result.Result)
		want   bool
	}{
		"the same":           {func(*bench, *result.Result) {}, true},
		"without -continue":  {func(b *bench, _ *result.Result) { b.proceed = false }, false},
		"to standard output": {func(b *bench, _ *result.Result) { b.out = "-" }, false},
		"another seed":       {func(_ *bench, r *result.Result) { r.Seed = 8 }, false},
		"another version":    {func(_ *bench, r *result.Result) { r.Contestant.Version = "2" }, false},
		"another incident":   {func(_ *bench, r *result.Result) { r.Incident.Hash += "-256Mi" }, false},
		"another contestant": {func(_ *bench, r *result.Result) { r.Contestant.Hash = "x" }, false},
		"another machine":    {func(_ *bench, r *result.Result) { r.Machine.Name = "n" }, false},
	} {
		if b, r := run(c.change); b.has(r) != c.want {
			t.Errorf("%s: got %v, want %v", name, !c.want, c.want)
		}
	}
	written.Observation.Witness.Samples, written.Seed = 0, 9
	if err := written.Write(dir); err != nil {
		t.Fatal(err)
	}
	b, r := run(func(_ *bench, r *result.Result) { r.Seed = 9 })
	if b.has(r) {
		t.Error("an invalid run is not repeated")
	}
	list := filepath.Join(t.TempDir(), "done")
	if err := os.WriteFile(list, []byte(r.Identity()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.out, b.proceed, b.finished = "-", false, list
	if err := b.loadDone(); err != nil || !b.has(r) {
		t.Errorf("a run of the list is repeated, %v", err)
	}
}

// TestAll_LeavesOutWhatFails has one contestant that always fails, and one that fails now and then.
func TestAll_LeavesOutWhatFails(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	var files []string
	for _, name := range []string{"broken", "shaky"} {
		files = append(files, filepath.Join(dir, name+".yaml"))
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("name: "+name+"\ntitle: t\narenas: [cgroup]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs := map[string]int{}
	b := &bench{options: options{incidents: "dips,log-flood", contestants: strings.Join(files, ","), runs: 4, arena: "cgroup", out: out}, failed: map[string]int{}}
	b.perform = func(_ context.Context, c cell, r *result.Result) error {
		runs[c.contestant.Name]++
		if c.contestant.Name == "broken" || runs["shaky"]%2 == 0 {
			return errors.New("it does not start " + strings.Repeat("x", maxReason))
		}
		r.Observation, r.Score = &score.Observation{}, &score.Score{Verdict: score.Won}
		return nil
	}
	if err := b.load(); err != nil {
		t.Fatal(err)
	}
	if err := b.all(t.Context()); err == nil || err.Error() != "broken left out after 3 runs in a row that failed: their results name the causes" {
		t.Errorf("got %v, want an error that names the contestant that is left out", err)
	}
	if runs["broken"] != maxFailures || runs["shaky"] != 8 {
		t.Errorf("runs %v, want %d and all 8", runs, maxFailures)
	}
	all, err := result.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	failed, last := map[string]int{}, 0
	for _, r := range all {
		if r.Failed == "" {
			continue
		}
		failed[r.Contestant.Name]++
		if !strings.Contains(r.Failed, "it does not start") || len(r.Failed) > maxReason {
			t.Errorf("got %s: %s", r.Contestant.Name, r.Failed)
		}
		if strings.HasPrefix(r.Failed, "3 runs in a row failed") {
			last++
		}
	}
	if failed["broken"] != maxFailures || failed["shaky"] != 4 || last != 1 || len(all) != maxFailures+8 {
		t.Errorf("%d results, failed %v, %d with the reason why others are left out: want 11, 3 and 4, 1", len(all), failed, last)
	}
}

// TestAll_EndsAfterUncleanRun checks that no run follows one of which something is left.
func TestAll_EndsAfterUncleanRun(t *testing.T) {
	b := &bench{options: options{incidents: "dips,log-flood", contestants: "kernel", runs: 2, arena: "cgroup", out: t.TempDir()}, failed: map[string]int{}}
	runs := 0
	b.perform = func(context.Context, cell, *result.Result) error {
		runs++
		return fmt.Errorf("a run: %w", referee.ErrUnclean)
	}
	if err := b.load(); err != nil {
		t.Fatal(err)
	}
	if err := b.all(t.Context()); !errors.Is(err, referee.ErrUnclean) || runs != 1 {
		t.Errorf("%d runs, %v: want one, and its error", runs, err)
	}
}

func TestProgress_EstimatesTheRest(t *testing.T) {
	begin := time.Unix(0, 0)
	p := &progress{begin: begin, done: 4, runs: 10}
	if text := p.text(begin.Add(20 * time.Minute)); text != "4/10, about 30m0s left" {
		t.Error(text)
	}
	if text := (&progress{runs: 10}).text(begin); text != "0/10" {
		t.Error(text)
	}
}
