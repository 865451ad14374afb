package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// recorded is a directory with the recording of an hour: a quiet check each minute, with its state.
func recorded(t *testing.T) (dir string, begun time.Time) {
	t.Helper()
	dir, begun = filepath.Join(t.TempDir(), "recording"), time.Now().Add(-time.Hour)
	record(t, dir, begun, 60)
	return dir, begun
}

// record adds a run of an agent to a directory, with a quiet check each minute.
func record(t *testing.T, dir string, begun time.Time, checks int) {
	t.Helper()
	c := agentconfig.NewAgent()
	effective, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]any{"decisions": map[string]any{}, "limiter": map[string]any{}, "exact": true}
	written(t, ring.Options{Dir: dir, Size: ring.MinSize, State: state, Header: recording.Header{Version: "1.2.3", Node: "node-7", Kernel: "6.1", CgroupVersion: 2, BootID: "b", Started: begun, Config: effective}}, func(r *ring.Ring) {
		for i := range checks {
			e, now := r.Next(), begun.Add(time.Duration(i)*time.Minute)
			s := &e.Check.Snapshot
			s.At = now
			for sig := range signals.All {
				s.Node[sig] = signals.Observed(9<<30, 10<<30, now)
			}
			e.Check.Seq, e.Check.StorageLimits, e.State = uint64(i), true, state
			r.Commit(now, true)
		}
	})
}

// written fills a ring and closes it. Virtual time stands still while the ring writes, so that the wait of Close
// does not end before.
func written(t *testing.T, o ring.Options, fill func(*ring.Ring)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := ring.Start(o)
		fill(r)
		if !r.Close() {
			t.Fatal("the disk hangs")
		}
	})
}

func TestRecording_ListAndInfo(t *testing.T) {
	dir, begun := recorded(t)
	from, to := begun.UTC().Format(time.RFC3339), begun.Add(59*time.Minute).UTC().Format(time.RFC3339)
	status, out, errs := plimsoll("", "recording", "list", "--recording-dir="+dir)
	if fields := strings.Fields(out); status != 0 || errs != "" || len(fields) != 14 || fields[7] != "1" || fields[8] != from || fields[9] != to || fields[10] != "60" {
		t.Errorf("list: status %d, %s%s", status, errs, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "0000000001.segment"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"agent 1.2.3 on node node-7, Linux 6.1, cgroup v2, boot b\n", "from " + from + " to " + to, "60 periodic, 0 early; 0 ranked pods"}
	for _, args := range [][]string{{"--recording-dir=" + dir}, {dir}, {filepath.Join(dir, "0000000001.segment")}, {"-"}} {
		status, out, errs := plimsoll(string(data), append([]string{"recording", "info"}, args...)...)
		for _, part := range want {
			if status != 0 || errs != "" || !strings.Contains(out, part) {
				t.Errorf("info %v: status %d, %s%s, want %q", args, status, errs, out, part)
			}
		}
	}
}

func TestRecording_ExportAndReplay(t *testing.T) {
	dir, begun := recorded(t)
	file := filepath.Join(t.TempDir(), "part.recording")
	status, out, errs := plimsoll("", "recording", "export", "--recording-dir="+dir, "--begin=30m", "--end="+begun.Add(40*time.Minute).Format(time.RFC3339Nano), "--file="+file)
	if status != 0 || out != "" || errs != "" {
		t.Fatalf("export: status %d, %s%s", status, errs, out)
	}
	status, out, errs = plimsoll("", "simulate", "--recording", file)
	if status != 0 || errs != "" || !strings.Contains(out, "agent 1.2.3 on node node-7") || !strings.Contains(out, "10 decide the same, 0 otherwise") {
		t.Errorf("replay: status %d, %s%s", status, errs, out)
	}
	if status, out, errs = plimsoll("", "simulate", "-o", "json", "--recording", dir); status != 0 || strings.Count(out, "\n") != 60 || !strings.Contains(errs, "60 decide the same, 0 otherwise") {
		t.Errorf("replay as JSON: status %d, %s%s", status, errs, out)
	}
	_, scenario, _ := plimsoll("", "recording", "export", "-o", "scenario", file)
	if status, out, errs = plimsoll(scenario, "simulate", "-o", "json", "-"); status != 0 || errs != "" || strings.Count(out, "\n") < 9 {
		t.Errorf("scenario: status %d, %s%s of\n%s", status, errs, out, scenario)
	}
	again := filepath.Join(t.TempDir(), "again")
	if status, _, errs = plimsoll("", "recording", "export", "-f", again, file); status != 0 {
		t.Error(errs)
	}
	first, _ := os.ReadFile(file)
	if second, err := os.ReadFile(again); err != nil || string(first) != string(second) {
		t.Errorf("an export of an export differs: %d and %d bytes, %v", len(first), len(second), err)
	}
}

// An export of a directory, segment by segment, is that of all of its segments at once.
func TestRecording_ExportsSegments(t *testing.T) {
	dir, begun := filepath.Join(t.TempDir(), "recording"), time.Now().Add(-time.Hour)
	for i := range 4 { // each run has a segment
		record(t, dir, begun.Add(time.Duration(i)*15*time.Minute), 14)
	}
	if segments, err := ring.List(dir); err != nil || len(segments) != 4 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	whole, err := readRecording(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ from, to int }{{0, 0}, {1, 58}, {16, 0}, {0, 20}, {20, 40}, {14, 15}, {15, 15}, {70, 80}} { // in minutes; 0: none
		at := func(minutes int) (t time.Time) {
			if minutes > 0 {
				t = begun.Add(time.Duration(minutes) * time.Minute)
			}
			return t
		}
		var want, got bytes.Buffer
		wanted, err := recording.Excerpt(whole, at(tc.from), at(tc.to), &want)
		if err != nil {
			t.Fatal(err)
		}
		checks, parts := 0, 0
		for data, err := range recordingParts(dir) {
			if err != nil {
				t.Fatal(err)
			}
			n, err := recording.Excerpt(data, at(tc.from), at(tc.to), &got)
			if err != nil {
				t.Fatal(err)
			}
			checks, parts = checks+n, parts+1
		}
		if parts != 4 || checks != wanted || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d to %d min: %d parts, %d checks, %d bytes; want %d, %d bytes", tc.from, tc.to, parts, checks, got.Len(), wanted, want.Len())
		}
		if tc.from == 0 && tc.to == 0 && checks != 56 {
			t.Errorf("%d checks", checks)
		}
	}
	status, out, errs := plimsoll("", "recording", "export", "--confirm", dir)
	if status != 0 || out != string(whole) || errs != fmt.Sprintf("exported %d bytes\n", len(whole)) {
		t.Errorf("export: status %d, %d bytes of %d, %s", status, len(out), len(whole), errs)
	}
}

// The null device is a character device, and no terminal.
func TestRecording_ExportsToNull(t *testing.T) {
	dir, _ := recorded(t)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"recording", "export", dir}, nil, null, &errs); status != 0 {
		t.Errorf("status %d, %s", status, errs.String())
	}
}

// An export for a client ends if nothing reads it: the client is gone.
func TestRecording_ConfirmedExportEndsWithoutReader(t *testing.T) {
	dir, _ := recorded(t)
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		defer in.Close()
		begun := time.Now()
		status := run(t.Context(), []string{"recording", "export", "--confirm", dir}, nil, out, io.Discard)
		if took := time.Since(begun); status != exitFailed || took != 30*time.Second {
			t.Errorf("status %d after %s", status, took)
		}
	})
}

func TestSimulate_ComparesConfiguration(t *testing.T) {
	dir, _ := recorded(t)
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nevictionHard: {memory.available: 9500Mi}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := plimsoll("", "simulate", "--recording", dir, "--config", file)
	for _, want := range []string{"checks: 60", "MemoryPressure           0s        59m0s", "Assumed:"} {
		if status != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in %s%s", status, want, errs, out)
		}
	}
}

func TestRecording_ExitStatus(t *testing.T) {
	dir, _ := recorded(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	hostile, empty := filepath.Join(t.TempDir(), "hostile"), t.TempDir()
	data, err := recording.NewEncoder(recording.Header{Version: "1\x1b]0;x\a", Config: []byte(`{"\u001b]0;x\u0007":1}`)}).Header(nil)
	if err == nil {
		err = os.WriteFile(hostile, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"recording", exitInvalid, "needs a command"},
		{"recordin", exitInvalid, "Did you mean this?\n    recording\n"},
		{"recording list extra", exitInvalid, "takes no arguments"},
		{"recording info a b", exitInvalid, "one file or directory"},
		{"recording list --recording-dir=" + dir + "/none", exitFailed, "give the --recording-dir of the agent"},
		{"recording info " + dir + "/none", exitFailed, "no such file"},
		{"recording info " + text, exitInvalid, "no frame of a recording is readable"},
		{"recording export --begin=later " + dir, exitInvalid, `--begin: "later": must be a time`},
		{"recording export --begin=-5m " + dir, exitInvalid, "--begin"},
		{"recording export --begin=5m --end=10m " + dir, exitInvalid, "is before --begin"},
		{"recording export -o pdf " + dir, exitInvalid, "must be recording or scenario"},
		{"recording export --confirm -o scenario " + dir, exitInvalid, "export the recording, and make the scenario of that file"},
		{"recording export --end=100h " + dir, exitFailed, "no check is recorded in this time"},
		{"recording export --file=" + text + "/below " + dir, exitFailed, "export a recording"},
		{"simulate --recording " + text, exitInvalid, "no frame of a recording is readable"},
		{"simulate --recording " + dir + "/none", exitFailed, "no such file"},
		{"simulate --recording " + dir + "/\x1b[2Jnone", exitFailed, "/?[2Jnone: no such file"},
		{"simulate --recording " + hostile, exitFailed, "of agent 1?]0;x?: [?]0;x?]: 1: unknown field"},
		{"simulate --recording " + dir + " " + text, exitInvalid, "takes no scenario file"},
		{"simulate --recording " + dir + " -o pdf", exitInvalid, "must be text or json"},
		{"simulate --config " + text, exitInvalid, "give --recording"},
		{"simulate --compare --recording " + dir, exitInvalid, "--config to compare a recording"},
		{"simulate --recording - --config -", exitInvalid, "from standard input"},
		{"recording info " + empty, exitFailed, "the directory has no segment"},
		{"simulate --recording " + dir + " --config " + text, exitInvalid, "must be a mapping"},
		{"simulate --recording " + dir + " --config " + dir + "/none", exitFailed, "read the configuration"},
		{"simulate --recording " + dir + " -o json --config " + text, exitInvalid, "a comparison is text"},
	} {
		status, out, errs := plimsoll("", strings.Fields(tc.args)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.want) || strings.ContainsAny(errs, "\x1b\a") {
			t.Errorf("%q: status %d, %q, %s, want %d and %q", tc.args, status, errs, out, tc.status, tc.want)
		}
	}
}
