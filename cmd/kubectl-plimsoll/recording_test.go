package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// recorded returns a file with the recording of an hour: a quiet check each minute, and one decision.
func recorded(t *testing.T) (file string, begun time.Time) {
	t.Helper()
	config := agentconfig.NewAgent()
	effective, err := config.Effective()
	if err != nil {
		t.Fatal(err)
	}
	dir, begun := filepath.Join(t.TempDir(), "recording"), time.Now().Add(-time.Hour)
	state := map[string]any{"decisions": map[string]any{}, "limiter": map[string]any{}, "exact": true}
	// Virtual time stands still while the ring writes, so that the wait of Close does not end before.
	synctest.Test(t, func(t *testing.T) {
		r := ring.Start(ring.Options{Dir: dir, Size: ring.MinSize, State: state, Header: recording.Header{Version: "1.2.3", Node: "node-7", Kernel: "6.1", CgroupVersion: 2, BootID: "b", Started: begun, Config: effective}})
		for i := range 60 {
			e, now := r.Next(), begun.Add(time.Duration(i)*time.Minute)
			e.Check.Snapshot.At = now
			for s := range signals.All {
				e.Check.Snapshot.Node[s] = signals.Observed(9<<30, 10<<30, now)
			}
			e.Check.Seq, e.Check.StorageLimits, e.State = uint64(i), true, state
			r.Commit(now, true)
		}
		e := r.Next()
		e.Decision, e.At = map[string]any{"decision": "evict", "pod": "shop/web", "reason": "low\x1b[2J"}, begun.Add(time.Hour)
		r.Commit(e.At, true)
		if !r.Close() {
			t.Fatal("the disk hangs")
		}
	})
	return filepath.Join(dir, "0000000001.segment"), begun
}

// No kubeconfig is read: a recording is a file.
func TestRecording_WorksOnFiles(t *testing.T) {
	file, begun := recorded(t)
	t.Setenv("KUBECONFIG", "/nowhere")
	part := filepath.Join(t.TempDir(), "part")
	for _, tc := range []struct{ line, want string }{
		{"recording info " + file, "agent 1.2.3 on node node-7, Linux 6.1, cgroup v2, boot b\n"},
		{"recording decisions " + file, "evict     shop/web  -        low?[2J\n"},
		{"recording decisions -o json " + file, `{"decision":"evict","pod":"shop/web"`},
		{"recording export -f " + part + " --end=" + begun.Add(10*time.Minute).Format(time.RFC3339Nano) + " " + file, ""},
		{"recording info " + part, "11 periodic"},
		{"report incident --recording=" + file, "<!DOCTYPE html>"},
		{"report incident -o md --recording=" + file, "# Incident on node `node-7`"},
	} {
		status, out, errs := execute(strings.Fields(tc.line)...)
		if status != 0 || errs != "" || !strings.Contains(out, tc.want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: status %d, no %q in %s%.2000s", tc.line, status, tc.want, errs, out)
		}
	}
}

func TestRecording_ExitStatuses(t *testing.T) {
	file, _ := recorded(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]struct {
		status int
		errs   string
	}{
		"recording":                                          {exitInvalid, "kubectl plimsoll recording needs a command: info, export or decisions"},
		"report":                                             {exitInvalid, "kubectl plimsoll report needs a command: incident"},
		"recording info":                                     {exitInvalid, "kubectl plimsoll recording info takes one file, or - for standard input; 0 were given"},
		"recording info a b":                                 {exitInvalid, "2 were given"},
		"recording info " + text:                             {exitInvalid, "no frame of a recording is readable"},
		"recording info " + filepath.Dir(file):               {exitFailed, "it is a directory: give a file of plimsoll recording export"},
		"recording export --end=100h " + file:                {exitFailed, "kubectl plimsoll recording info shows what is recorded"},
		"recording export":                                   {exitInvalid, "kubectl plimsoll recording export takes one node, one file, or - for standard input; 0 were given"},
		"recording export node/":                             {exitInvalid, `"" is no name of a node`},
		"recording export /nowhere":                          {exitFailed, "/nowhere: no such file"},
		"recording export --timeout=0s node-7":               {exitInvalid, "--timeout: 0s: must be positive"},
		"recording export --begin=soon node-7":               {exitInvalid, "--begin"},
		"recording export -o scenario " + file:               {exitInvalid, "unknown shorthand flag"},
		"recording decisions --begin=100h --end=99h " + file: {exitFailed, "none is stored in the given time: give another time\n"},
		"recording decisions --begin=soon " + file:           {exitInvalid, "--begin"},
		"report incident":                                    {exitInvalid, "--recording: give a file"},
		"report incident a":                                  {exitInvalid, "kubectl plimsoll report incident takes no arguments"},
		"report incident --recording=/nowhere":               {exitFailed, "/nowhere"},
	} {
		if status, out, errs := execute(strings.Fields(line)...); status != want.status || out != "" || !strings.Contains(errs, want.errs) {
			t.Errorf("%s: status %d, %s%s, want %d, %q", line, status, out, errs, want.status, want.errs)
		}
	}
}

// The recording of a node becomes a file under its name only as a whole.
func TestRecording_ExportsNode(t *testing.T) {
	withAgent(t)
	file, _ := recorded(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "incident.recording")
	t.Chdir(dir)
	var ran, before []string // what was run, and the files while it ran
	agent := func(part []byte, confirmed int, fails error) inPod {
		return func(_ context.Context, args []string, stdout, stderr io.Writer) error {
			ran = args
			_, _ = stdout.Write(part)
			before = names(t, dir)
			fmt.Fprintf(stderr, "exported %d bytes\n", confirmed)
			return fails
		}
	}
	for _, tc := range []struct {
		args   string
		agent  inPod
		status int
		errs   string
		ran    string
	}{
		{"node-7 -f incident.recording --begin=1h --recording-dir=/data", agent(whole[:100], len(whole), nil), exitFailed, "the connection ended before the answer was complete", "recording export --begin=1h --recording-dir=/data --confirm"},
		{"node-7 -f incident.recording", agent(whole[:100], 100, errors.New("no route to host")), exitFailed, "no route to host", "recording export --confirm"},
		{"node-7 -f incident.recording", agent(nil, 0, exited(1)), exitFailed, "run plimsoll recording export on node node-7: exit status 1", "recording export --confirm"},
		{"node-8 -f incident.recording", nil, exitFailed, "it has no agent", ""},
		{"node-8", nil, exitFailed, "There is no file node-8 either", ""},
		{"node-7 -f none/incident.recording", agent(whole, len(whole), nil), exitFailed, "export a recording", ""},
		{"node/node-7 -f incident.recording --begin=1h --end=30m", agent(whole, len(whole), nil), 0, "", "recording export --begin=1h --end=30m --confirm"},
	} {
		ran = nil
		status, out, errs := executeWith(tc.agent, append([]string{"recording", "export"}, strings.Fields(tc.args)...)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.errs) || (errs == "") != (status == 0) || strings.Join(ran, " ") != tc.ran {
			t.Errorf("%s: status %d, ran %q, %s%s", tc.args, status, ran, out, errs)
		}
		if slices.Contains(before, "incident.recording") {
			t.Errorf("%s: %q while the export is not complete", tc.args, before)
		}
		if left := names(t, dir); status != 0 && len(left) > 0 {
			t.Errorf("%s: %q is left", tc.args, left)
		}
	}
	got, err := os.ReadFile(target)
	if info, _ := os.Stat(target); err != nil || !bytes.Equal(got, whole) || info.Mode().Perm() != 0o600 || len(names(t, dir)) != 1 {
		t.Errorf("%d of %d bytes, mode %s, %v", len(got), len(whole), info.Mode(), err)
	}
	if status, out, errs := executeWith(agent(nil, 0, nil), "recording", "export", "node-7"); status != 0 || out != "" || errs != "" {
		t.Errorf("to standard output: status %d, %s", status, errs)
	}
	// The name of a file is that file, and a link to one stays a link.
	if err := os.Symlink("incident.recording", "node-7"); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := executeWith(nil, "recording", "export", "node-7"); status != 0 || out != string(whole) {
		t.Errorf("a file with the name of a node: status %d, %d bytes, %s", status, len(out), errs)
	}
	if status, _, errs := executeWith(agent(whole, len(whole), nil), "recording", "export", "node/node-7", "-f", "node-7"); status != 0 {
		t.Errorf("to a link: %s", errs)
	}
	if info, err := os.Lstat("node-7"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
