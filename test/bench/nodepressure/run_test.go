package main

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

func TestLoad_SetsNode(t *testing.T) {
	for node, want := range map[string]int64{"": 1 << 30, "256MiB": 256 << 20, "1MiB": 0, "3GiB": 0, "some": 0} {
		b := &bench{options: options{node: node, incidents: "dips", contestants: "kernel"}}
		err := b.load()
		if (want == 0) != (err != nil) || err == nil && b.incidents[0].Node != want {
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
		r.Contestant.Version != "1.7" || r.Incident.Hash == "" || r.Contestant.Hash == "" || r.Seed != 7 {
		t.Errorf("got %+v", r)
	}
	r.Unavailable = "because"
	if text := summary(r); text != "earlyoom against respawn-loop: not run: because" {
		t.Error(text)
	}
	r.Unavailable, r.Score = "", &score.Score{Verdict: score.Lost, Why: "the kernel killed", Least: 3 << 20}
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
