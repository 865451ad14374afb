package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// decided is a directory with three stored decisions, an hour, half an hour and a minute ago.
func decided(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "decisions")
	begun := time.Now().Add(-time.Hour)
	written(t, ring.Options{Dir: dir, Size: ring.MinSize, Queue: 8, Header: recording.Header{Version: "1.2.3", Node: "node-7", Started: begun}}, func(r *ring.Ring) {
		for _, d := range []struct {
			ago  time.Duration
			line map[string]any
		}{
			{time.Hour, map[string]any{"decision": "evict", "pod": "shop/web", "signal": "memory.available", "threshold": "memory.available<100Mi", "reason": "it was\nlow\x1b[2J"}},
			{30 * time.Minute, map[string]any{"decision": "oom-kill", "pod": "shop/db", "limitOf": "container", "reason": "at its limit"}},
			{time.Minute, map[string]any{"decision": "armed"}},
		} {
			e := r.Next()
			e.Decision, e.At = d.line, begun.Add(time.Hour-d.ago)
			r.Commit(e.At, true)
		}
	})
	return dir
}

func TestDecisions_ListAndExport(t *testing.T) {
	dir := decided(t)
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"", []string{"TIME", "DECISION", "evict", "shop/web  memory.available<100Mi  it was low?[2J\n", "oom-kill  shop/db   container", "at its limit\n", "armed     -         -"}},
		{"--begin=45m --end=5m", []string{"TIME", "oom-kill", "shop/db", "at its limit\n"}},
		{"-o json", []string{`{"decision":"evict","pod":"shop/web","reason":"it was\nlow\u001b[2J","signal":"memory.available","threshold":"memory.available<100Mi"}` + "\n", `{"decision":"oom-kill","limitOf":"container",`, `{"decision":"armed"}` + "\n"}},
		{"-o json --begin=5m", []string{`{"decision":"armed"}` + "\n"}},
	} {
		status, out, errs := plimsoll("", append([]string{"recording", "decisions", "--decision-log-dir=" + dir}, strings.Fields(tc.args)...)...)
		rest := out
		for _, part := range tc.want {
			_, after, found := strings.Cut(rest, part)
			if status != 0 || errs != "" || !found {
				t.Errorf("%s: status %d, no %q in its place in %s%s", tc.args, status, part, errs, out)
				break
			}
			rest = after
		}
		if rest != "" && strings.Trim(rest, " -\n") != "" {
			t.Errorf("%s: %q at its end", tc.args, rest)
		}
	}
	if status, out, errs := plimsoll("", "recording", "decisions", dir, "-o", "json"); status != 0 || strings.Count(out, "\n") != 3 || errs != "" {
		t.Errorf("by its directory: status %d, %s%s", status, errs, out)
	}
}

func TestDecisions_ExitStatus(t *testing.T) {
	dir := decided(t)
	quiet, _ := recorded(t)
	lines := filepath.Join(t.TempDir(), "node.jsonl")
	if err := os.WriteFile(lines, []byte(`{"time":"2026-03-01T12:00:00Z","decision":"evict"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"--output=yaml " + dir:              {exitInvalid, "must be text or json"},
		"--begin=soon " + dir:               {exitInvalid, "--begin"},
		"--begin=1m --end=2m " + dir:        {exitInvalid, "is before --begin"},
		"a b":                               {exitInvalid, "one file or directory"},
		dir + "/none":                       {exitFailed, "no such file"},
		"--end=100h " + dir:                 {exitFailed, "none is stored in the given time"},
		quiet:                               {exitFailed, "none is stored"},
		lines:                               {exitInvalid, "no frame of a recording is readable"},
		"--decision-log-dir=" + t.TempDir(): {exitFailed, "the directory has no segment"},
	} {
		status, out, errs := plimsoll("", append([]string{"recording", "decisions"}, strings.Fields(args)...)...)
		if status != want.status || out != "" || !strings.Contains(errs, want.text) {
			t.Errorf("%s: status %d, %s%s, want %d and %q", args, status, errs, out, want.status, want.text)
		}
	}
}
