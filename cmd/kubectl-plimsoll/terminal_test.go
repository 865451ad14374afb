package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"plimsoll.dev/plimsoll/internal/agentexec"
	"plimsoll.dev/plimsoll/internal/live"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// shown returns a view of 80 columns and 24 lines with a state of three pods.
func shown(t *testing.T) (*view, *clock) {
	t.Helper()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	v := &view{now: c.now}
	v.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	s := &live.State{Node: "node-7", Time: c.at, Check: &live.Check{Time: c.at, Kind: "periodic"}, PodCount: 3}
	for i, name := range []string{"c", "a", "b"} {
		memory := int64(300-100*i) << 20
		s.Pods = append(s.Pods, live.Pod{Pod: "shop/" + name, Memory: &memory})
	}
	v.Update(stateMsg{s})
	return v, c
}

// press presses keys, by their names.
func press(v *view, keys ...string) (quits bool) {
	codes := map[string]tea.Key{"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp}, "end": {Code: tea.KeyEnd}, "home": {Code: tea.KeyHome},
		"esc": {Code: tea.KeyEscape}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}}
	for _, name := range keys {
		key, special := codes[name]
		if !special {
			key = tea.Key{Code: rune(name[0]), Text: name}
		}
		if _, cmd := v.Update(tea.KeyPressMsg(key)); cmd != nil {
			_, quits = cmd().(tea.QuitMsg)
		}
	}
	return quits
}

func TestView_Keys(t *testing.T) {
	for _, tc := range []struct {
		keys  string
		want  string // in the text
		quits bool
	}{
		{"", "PODS BY MEMORY: 1 to 3 of 3", false},
		{"q", "", true},
		{"ctrl+c", "", true},
		{"s", "PODS BY MEMORY ABOVE THE REQUEST", false},
		{"s s s", "PODS BY NAME", false},
		{"s s s s", "PODS BY MEMORY:", false},
		{"?", "change the order of pods", false},
		{"? ?", "PODS BY MEMORY", false},
		{"? esc", "PODS BY MEMORY", false},
		{"down down down down up", "1 to 3 of 3", false},
		{"pgdown pgup end home j k x", "1 to 3 of 3", false},
	} {
		v, _ := shown(t)
		if quits := press(v, strings.Fields(tc.keys)...); quits != tc.quits || !strings.Contains(v.View().Content, tc.want) || !v.View().AltScreen {
			t.Errorf("%s: quits %t, no %q in\n%s", tc.keys, quits, tc.want, v.View().Content)
		}
	}
}

// Each key that scrolls changes the text, from either end on, and after a change of the terminal's size.
func TestView_HasNoDeadKeys(t *testing.T) {
	v, _ := shown(t)
	for i := range 40 {
		v.state.Pods = append(v.state.Pods, live.Pod{Pod: fmt.Sprintf("shop/more-%02d", i)})
	}
	v.state.PodCount = len(v.state.Pods)
	changes := func(key string) bool {
		before := v.View().Content
		press(v, key)
		return v.View().Content != before
	}
	if press(v, "end"); !strings.Contains(v.View().Content, "to 43 of 43") || !strings.Contains(v.View().Content, "shop/more-39") {
		t.Errorf("at the end:\n%s", v.View().Content)
	}
	if changes("down") || !changes("up") || !changes("down") || changes("end") || !changes("pgup") {
		t.Errorf("keys at the end:\n%s", v.View().Content)
	}
	press(v, "end")
	v.Update(tea.WindowSizeMsg{Width: 80, Height: 40})
	if !strings.Contains(v.View().Content, "to 43 of 43") || !changes("up") {
		t.Errorf("in a higher terminal:\n%s", v.View().Content)
	}
	if press(v, "home"); changes("up") || !changes("down") {
		t.Errorf("keys at the begin:\n%s", v.View().Content)
	}
	if press(v, "s"); v.screen.Offset != 0 {
		t.Errorf("in another order at %d, want the first pod", v.screen.Offset)
	}
}

// Ages go on between states, and without a connection.
func TestView_ShowsAgeWithoutConnection(t *testing.T) {
	v, c := shown(t)
	c.at = c.at.Add(7 * time.Second)
	if text := v.View().Content; !strings.Contains(text, "periodic check 7s ago") || strings.Contains(text, "Connection") {
		t.Errorf("%s", text)
	}
	v.Update(lostMsg{errors.New("no route\x1b[2J to\nhost \u4e16"), 4 * time.Second})
	c.at = c.at.Add(time.Second)
	if text := v.View().Content; !strings.Contains(text, "\nConnection lost 1s ago, next attempt in 3s, the state is 8s old: no route?[2J to\n  host ?\n") || strings.ContainsAny(text, "\x1b\u4e16") {
		t.Errorf("%s", text)
	}
	v.Update(lostMsg{errors.New("again"), 4 * time.Second})
	c.at = c.at.Add(5 * time.Second)
	if text := v.View().Content; !strings.Contains(text, "Connection lost 6s ago, connecting, the state is 13s old: again") {
		t.Errorf("%s", text)
	}
	v.Update(stateMsg{&live.State{Node: "node-7"}})
	if text := v.View().Content; strings.Contains(text, "Connection") {
		t.Errorf("connected again: %s", text)
	}
	empty := &view{now: c.now}
	empty.Update(tea.WindowSizeMsg{Width: 80, Height: 5})
	if text := empty.View().Content; !strings.HasPrefix(text, "Waiting for the state of the node") {
		t.Errorf("before the first state: %s", text)
	}
	empty.Update(lostMsg{errors.New("late"), time.Second})
	if text := empty.View().Content; !strings.HasPrefix(text, "Connection lost 0s ago, next attempt in 1s: late") {
		t.Errorf("before the first state: %s", text)
	}
}

func TestView_NoColour(t *testing.T) {
	for value, want := range map[string]bool{"": true, "1": false, "0": false} {
		if got := hasColour(func(string) string { return value }); got != want {
			t.Errorf("NO_COLOR=%s: %t", value, got)
		}
	}
	v, _ := shown(t)
	if v.colour = true; !strings.Contains(v.View().Content, "\x1b[1m") {
		t.Error("no colour")
	}
}

// The whole view, on an output without a terminal, ends with a key, with the agent's error, and with the context. Each
// time it leaves the alternate screen.
func TestTerminal_EndsAndRestores(t *testing.T) {
	const enters, leaves = "\x1b[?1049h", "\x1b[?1049l"
	follower := func(run inPod) *follower {
		return &follower{agent: &agentexec.Agent{Client: onlyPods{pods: []corev1.Pod{agentPod()}}, Namespace: "ns", Node: "node-7", Executor: run}}
	}
	line := stateLine(t, nil)
	t.Setenv("TERM", "xterm")
	shows := func(ctx context.Context, in io.Reader, run inPod) (string, error) {
		var out bytes.Buffer
		err := showTerminal(ctx, follower(run), genericiooptions.IOStreams{In: in, Out: &out, ErrOut: io.Discard})
		return out.String(), err
	}
	keys, typed := io.Pipe()
	waits := func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		_, _ = io.WriteString(stdout, line)
		<-ctx.Done()
		return ctx.Err()
	}
	out, err := shows(t.Context(), keys, func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		go func() { _, _ = typed.Write([]byte("q")) }()
		return waits(ctx, args, stdout, stderr)
	})
	if err != nil || !strings.Contains(out, enters) || strings.LastIndex(out, leaves) < strings.LastIndex(out, enters) {
		t.Errorf("q: %v, %q", err, out)
	}
	silent, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	out, err = shows(ctx, silent, func(inner context.Context, args []string, stdout, stderr io.Writer) error {
		cancel()
		return waits(inner, args, stdout, stderr)
	})
	if err != nil || strings.LastIndex(out, leaves) < strings.LastIndex(out, enters) {
		t.Errorf("a signal: %v, %q", err, out)
	}
	out, err = shows(t.Context(), silent, func(context.Context, []string, io.Writer, io.Writer) error { return exited(127) })
	if err == nil || !strings.Contains(err.Error(), "the image of the agent has no /plimsoll") || strings.LastIndex(out, leaves) < strings.LastIndex(out, enters) {
		t.Errorf("an error: %v, %q", err, out)
	}
}
