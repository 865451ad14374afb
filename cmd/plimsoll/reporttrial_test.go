package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// trialDir is a directory with the records of three nodes: an exported recording with a decision in dry run and an
// eviction of the same pod by a kubelet, lines of the decision log, and the directory of a quiet agent.
func trialDir(t *testing.T) (dir string, begun time.Time) {
	t.Helper()
	agent, begun := recorded(t)
	dir = filepath.Join(t.TempDir(), "trial")
	for _, name := range []string{"", "nodes", "nodes/node-7", "ignored"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	segment, err := os.ReadFile(filepath.Join(agent, "0000000001.segment"))
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`{"time":%q,"decision":"would-evict","pod":"shop/web","uid":"u","signal":"memory.available","message":"The node was low on resource: memory. "}`, begun.Add(5*time.Minute).UTC().Format(time.RFC3339Nano))
	for name, data := range map[string][]byte{"nodes/node-7/0000000001.segment": segment, "nodes/a.recording": evictedByKubelet(t, begun, line), "nodes/node-9.jsonl": []byte(line + "\n"), "ignored/README.md": []byte("none")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, begun
}

// evictedByKubelet is the recording of ten minutes of node-8.
func evictedByKubelet(t *testing.T, begun time.Time, line string) (data []byte) {
	t.Helper()
	e := recording.NewEncoder(recording.Header{Segment: 1, Version: "1.2.3", Node: "node-8", BootID: "b", Started: begun})
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	pod, ok := &signals.Pod{UID: "u", Namespace: "shop", Name: "web"}, true
	for s := 0; s <= 600 && ok; s += 10 {
		now := begun.Add(time.Duration(s) * time.Second)
		if s == 300 {
			if data, ok = e.Decision(data, &recording.Decision{At: now, Line: json.RawMessage(line)}); !ok {
				break
			}
		}
		c := &recording.Check{Seq: uint64(s), Snapshot: signals.Snapshot{At: now}}
		c.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(1<<30, 4<<30, now)
		if data, ok = e.Check(data, c); !ok {
			break
		}
		u := &recording.Usage{At: now.Add(time.Second)}
		switch {
		case s < 310:
			u.Pods = []recording.PodUsage{{Pod: pod}}
		case s == 310:
			u.Gone = []recording.Gone{{Pod: pod, End: recording.EvictedForMemory}}
		}
		data, ok = e.Usage(data, u)
	}
	if !ok {
		t.Fatal("not encoded")
	}
	return data
}

func TestReportTrial_Forms(t *testing.T) {
	dir, begun := trialDir(t)
	row := begun.Add(5*time.Minute).UTC().Format("2006-01-02 15:04:05.000") + "  node-8  shop/web  would evict"
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want []string
	}{
		{link, []string{"Trial on 3 nodes", row}},
		{dir, []string{"Trial on 3 nodes", row, "same pod", "a.recording at byte ", "node-7  ", "node-9.jsonl at byte 0", "Node node-9: no usage of pods is recorded."}},
		{filepath.Join(dir, "nodes", "a.recording"), []string{"Trial on 1 node", row}},
		{filepath.Join(dir, "nodes", "node-7") + " " + filepath.Join(dir, "nodes", "node-9.jsonl"), []string{"Trial on 2 nodes"}},
		{"--nodes=node-8,node-1 " + dir, []string{"Trial on 1 node", row}},
		{"-o md --window=30s " + dir, []string{"# Trial on 3 nodes", "30s before and after a decision"}},
		{"-o html " + dir, []string{"<!DOCTYPE html>", "<bdi>shop/web</bdi>"}},
		{"--since=1h --end= " + dir, []string{"Disarmed agents would have evicted in 2 decisions."}},
		{"--since=10m " + dir, []string{"Disarmed agents would have evicted in 0 decisions."}},
		{"--end=56m " + dir, []string{"Disarmed agents would have evicted in 0 decisions."}},
	} {
		status, out, errs := plimsoll("", append([]string{"report", "trial"}, strings.Fields(tc.args)...)...)
		for _, part := range tc.want {
			if status != 0 || errs != "" || !strings.Contains(out, part) {
				t.Errorf("%s: status %d, %s, no %q in %.3000s", tc.args, status, errs, part, out)
			}
		}
	}
}

// Programs read the same from JSON and YAML.
func TestReportTrial_ForPrograms(t *testing.T) {
	dir, _ := trialDir(t)
	type document struct {
		Kind    string
		Summary struct {
			DryRun struct{ Total, SamePod, Unknown int }
		}
		Decisions []struct {
			Node, Outcome string
			Record        struct {
				File   string
				Offset int64
			}
		}
	}
	file := filepath.Join(t.TempDir(), "trial.json")
	if status, out, errs := plimsoll("", "report", "trial", "-o", "json", "--file="+file, dir); status != 0 || out != "" || errs != "" {
		t.Fatalf("status %d, %s%s", status, errs, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil || d.Kind != "TrialReport" || d.Summary.DryRun.Total != 2 || d.Summary.DryRun.SamePod != 1 || d.Summary.DryRun.Unknown != 1 || len(d.Decisions) != 2 || d.Decisions[0].Outcome != "same-pod" {
		t.Errorf("%v, %+v", err, d)
	}
	recorded, err := os.ReadFile(d.Decisions[0].Record.File)
	if err != nil || !bytes.Contains(recorded[d.Decisions[0].Record.Offset:][:200], []byte("would-evict")) {
		t.Errorf("%v, no decision at %+v", err, d.Decisions[0].Record)
	}
	status, out, errs := plimsoll("", "report", "trial", "-o", "yaml", dir)
	var faults strictyaml.Faults
	if v := strictyaml.Parse([]byte(out), &faults); status != 0 || errs != "" || faults.Err() != nil || !v.Present() || !strings.Contains(out, "kind: TrialReport\n") || !strings.Contains(out, "outcome: same-pod\n") {
		t.Errorf("status %d, %s, %v\n%s", status, errs, faults.Err(), out)
	}
}

func TestReportTrial_ExitStatus(t *testing.T) {
	dir, _ := trialDir(t)
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.Mkdir(bad, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "nodes", "a.recording"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(data)
	damaged[len(data)/2]++
	for name, text := range map[string][]byte{"text.recording": []byte("none"), "damaged.recording": damaged, "lines.jsonl": []byte("{\"decision\":\"armed\",\"time\":\"2026-03-01T12:00:00Z\"}\nnone\n"), "empty/README.md": nil} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(bad, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bad, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"", exitInvalid, "none was given"},
		{"-o pdf " + dir, exitInvalid, "must be text, json, yaml, md or html"},
		{"--window=0s " + dir, exitInvalid, "--window: 0s: must be above 0"},
		{"--since=-1h " + dir, exitInvalid, "--since: -1h0m0s: must be at least 0"},
		{"--since=1h --begin=2h " + dir, exitInvalid, "--since stands for --begin and --end"},
		{"--begin=later " + dir, exitInvalid, `--begin: "later"`},
		{bad + "/none", exitFailed, "no such file"},
		{bad + "/empty", exitFailed, "it has no file *.recording, *.jsonl or *.segment"},
		{"--nodes=node-1 " + dir, exitFailed, "none is of node-1"},
		{bad + "/text.recording", exitInvalid, "text.recording: at byte 0: no frame of a recording is readable"},
		{"--allow-damage " + bad + "/text.recording", exitInvalid, "text.recording: at byte 0: no frame of a recording is readable"},
		{bad + "/damaged.recording", exitInvalid, "damaged.recording: at byte "},
		{bad + "/lines.jsonl", exitInvalid, "lines.jsonl: at byte 51: it is no line of the decision log"},
		{"--file=" + bad + "/none/x " + dir, exitFailed, "write the report"},
	} {
		status, out, errs := plimsoll("", append([]string{"report", "trial"}, strings.Fields(tc.args)...)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: status %d, %s%s, want %d and %q", tc.args, status, errs, out, tc.status, tc.want)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(bad, "empty", "pipe.recording"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(bad, "empty", "zero.jsonl")); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := plimsoll("", "report", "trial", bad+"/empty"); status != exitFailed || !strings.Contains(errs, "it has no file") {
		t.Errorf("a pipe and a device: status %d, %s", status, errs)
	}
	status, out, errs := plimsoll("", "report", "trial", "--allow-damage", bad+"/damaged.recording", bad+"/lines.jsonl")
	if status != 0 || errs != "" || !strings.Contains(out, "damaged.recording is not readable in part") || !strings.Contains(out, "1 lines of ") {
		t.Errorf("with damage: status %d, %s%s", status, errs, out)
	}
}
