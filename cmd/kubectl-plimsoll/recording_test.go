package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
