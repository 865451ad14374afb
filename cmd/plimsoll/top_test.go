package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/live"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

func TestTop_Formats(t *testing.T) {
	dir, _ := recorded(t)
	for _, tc := range []struct{ args, want string }{
		{"", "node-7  agent 1.2.3"},
		{"-o text", "memory.available                   9Gi        100Mi     8.9Gi"},
		{"-o json", `{"apiVersion":"plimsoll.dev/v1alpha1","kind":"NodeState","node":"node-7","agentVersion":"1.2.3"`},
		{"-o yaml", "kind: NodeState\n"},
		{"-o json --watch --duration=1ns", `"threshold":"memory.available<100Mi"`},
	} {
		status, out, errs := plimsoll("", append([]string{"top", "--recording-dir=" + dir}, strings.Fields(tc.args)...)...)
		if status != 0 || errs != "" || !strings.Contains(out, tc.want) {
			t.Errorf("top %s: status %d, %s%s", tc.args, status, errs, out)
		}
		if strings.Contains(tc.args, "json") {
			if _, err := live.Parse([]byte(strings.TrimSpace(out))); err != nil || strings.Count(out, "\n") != 1 {
				t.Errorf("top %s: %v in\n%s", tc.args, err, out)
			}
		}
	}
}

func TestTop_NamesDamage(t *testing.T) {
	dir, _ := recorded(t)
	segments, err := ring.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := segments[0].Read()
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x55
	if err := os.WriteFile(segments[0].Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"text", "json"} {
		status, out, errs := plimsoll("", "top", "--recording-dir="+dir, "--output="+output)
		if status != 0 || errs != "" || strings.Count(out, "a part of the recording is damaged") != 1 {
			t.Errorf("status %d, %s%s", status, errs, out)
		}
	}
}

func TestTop_ExitStatus(t *testing.T) {
	dir, _ := recorded(t)
	for _, tc := range []struct {
		args   string
		status int
		want   string
	}{
		{"top extra", exitInvalid, "takes no arguments"},
		{"top -o wide", exitInvalid, `--output: "wide": must be text, json or yaml`},
		{"top --interval=1ms", exitInvalid, "--interval: 1ms: must be at least 200ms"},
		{"top --duration=-1s", exitInvalid, "--duration: -1s: must be at least 0"},
		{"top --recording-dir=" + dir + "/none", exitFailed, "no such file or directory: give the --recording-dir of the agent"},
		{"top --recording-dir=" + filepath.Dir(dir), exitFailed, "has no segment of a recording: give the --recording-dir of an agent that records"},
	} {
		status, out, errs := plimsoll("", strings.Fields(tc.args)...)
		if status != tc.status || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: status %d, %s%s", tc.args, status, errs, out)
		}
	}
}

// A state is written at once, and again for news. Without news it is repeated after a while, so that ticks alone write
// nothing.
func TestTop_WatchesForNews(t *testing.T) {
	dir, _ := recorded(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	ticks := make(chan time.Time)
	ended := make(chan error)
	go func() {
		o := top{dir: dir, output: "yaml", watch: true}
		ended <- o.run(ctx, &out, ticks)
	}()
	for range 3 {
		ticks <- time.Time{}
	}
	cancel()
	if err := <-ended; err != nil || strings.Count(out.String(), "kind: NodeState") != 1 {
		t.Errorf("%v, %s", err, out.String())
	}
	var both bytes.Buffer
	o := top{output: "yaml"}
	for again := range 2 {
		if err := o.print(&both, &live.State{}, again > 0); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(both.String(), "---\n") != 1 {
		t.Errorf("two documents: %s", both.String())
	}
}

// An output that nothing reads ends the command: its client is gone.
func TestTop_EndsWithoutReader(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	if _, err := (recordingcmd.PatientWriter{Out: out, For: time.Millisecond}).Write([]byte("x")); !errors.Is(err, recordingcmd.ErrNoReader) {
		t.Errorf("%v", err)
	}
	if _, err := (recordingcmd.PatientWriter{Out: io.Discard, For: time.Minute}).Write([]byte("x")); err != nil {
		t.Errorf("%v", err)
	}
	dir, _ := recorded(t)
	o := top{dir: dir, output: "json", watch: true}
	in.CloseWithError(io.ErrClosedPipe)
	if err := o.run(t.Context(), out, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}
