package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kmsg"
	"plimsoll.dev/plimsoll/internal/oomkill"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

var oomRounds = flag.Int("oom-rounds", 1, "rounds of real OOM kills, each with one kill of every kind")

const oomMiB = 1 << 20

// A realOOM is a way to meet a limit on a real kernel, on a node of three pods with two containers each.
type realOOM struct {
	limits map[string]int64 // by cgroup: a pod, a container as "pod/container", pods
	runs   []realHog
	want   string // empty: nothing is clear
	burst  bool   // there are many kills
}

// scopePeriod is the time in which the kernel writes at most ten lines about the cgroups of kills.
const scopePeriod = 5 * time.Second

// realHog is a hog in a container.
type realHog struct {
	pod, container string
	fill           string // at once, may be empty
	grow           string // until the kill, may be empty; repeated if it ends
}

// realOOMs are the kinds of kills on a node of 512 MiB. Growth takes at least three seconds.
var realOOMs = map[string]realOOM{
	"limit of a container": {map[string]int64{"a/app": 96 * oomMiB},
		[]realHog{{"a", "app", "", "fill 300MiB at 40MiB/s"}, {"b", "app", "fill 120MiB", ""}}, "container: n/a/app killed; n/a/app, n/a/app", false},
	"limit of a pod": {map[string]int64{"a": 160 * oomMiB},
		[]realHog{{"a", "app", "fill 20MiB", ""}, {"a", "side", "", "fill 300MiB at 40MiB/s"}}, "pod: n/a/side killed; n/a/side, n/a/side", false},
	"files in memory of another container": {map[string]int64{"a": 200 * oomMiB},
		[]realHog{{"a", "app", "fill 30MiB", ""}, {"a", "side", "", "tmpfs 300MiB at 40MiB/s for 1m"}}, "pod: n/a/app killed; n/a/side, n/a/side", false},
	"memory of the node": {nil,
		[]realHog{{"a", "app", "fill 60MiB", ""}, {"b", "app", "fill 60MiB", ""}, {"c", "app", "", "fill 600MiB at 90MiB/s"}}, "node: n/c/app killed; n/c, n/c", false},
	"several grow": {nil,
		[]realHog{{"a", "app", "fill 40MiB", "fill 600MiB at 15MiB/s"}, {"b", "app", "fill 20MiB", "fill 600MiB at 10MiB/s"}, {"c", "app", "", "fill 600MiB at 90MiB/s"}}, "node: n/c/app killed; n/c, n/c", false},
	"one holds most, another one grows": {nil,
		[]realHog{{"a", "app", "fill 280MiB", ""}, {"b", "app", "fill 20MiB", ""}, {"c", "app", "", "fill 600MiB at 40MiB/s"}}, "node: n/a/app killed; n/a, n/c", false},
	"two grow equally": {nil,
		[]realHog{{"a", "app", "fill 30MiB", "fill 600MiB at 40MiB/s"}, {"b", "app", "", "fill 600MiB at 40MiB/s"}}, "", false},
	"files in memory at the limit of all pods": {map[string]int64{"pods": 300 * oomMiB},
		[]realHog{{"a", "app", "fill 60MiB", ""}, {"b", "app", "", "tmpfs 500MiB at 60MiB/s for 1m"}}, "pods: n/a/app killed; n/b, n/b", false},
	"a fork tree": {map[string]int64{"a": 120 * oomMiB},
		[]realHog{{"a", "side", "", "fork 25"}, {"b", "app", "fill 60MiB", ""}}, "pod: n/a/side killed; n/a/side, n/a/side", true},
}

// Bounds beyond which readings explain nothing about a kill. A busy machine delays readings.
const (
	// maxReadDelay is less than oomkill's maximum time from a kill to the reading after it, 100 ms. The
	// difference exceeds that between the clocks of the log and of readings.
	maxReadDelay = 80 * time.Millisecond
	// maxReadGap is less than oomkill's maximum time between readings, and from the last one to the kill, 2 s.
	maxReadGap = time.Second
	// minBefore is more than oomkill's minimum number of readings before the kill, 4.
	minBefore = 6
)

// answer is the report about a kill.
type answer struct {
	text   string
	killed time.Duration // by the clock of the log
	read   time.Time     // end of the reading after the kill; zero if none explains it
	noted  int           // readings of the recorder that the answer can be from: a later one may be older than the kill
}

// realNode is a sandbox node with a watcher of its kills, and with readings as a recorder makes them.
type realNode struct {
	*sandbox.Node
	pods     map[string]*sandbox.Pod
	watch    oomWatcher
	recorder *stats.HeldReader
	readings []time.Time // of the recorder; locked with the history
	report   chan answer
}

func newRealNode(t *testing.T) *realNode {
	t.Helper()
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	n := &realNode{Node: sandbox.Make(t, "oom", 512*oomMiB), pods: map[string]*sandbox.Pod{}, report: make(chan answer, 64)}
	var known []signals.Pod
	for i, name := range []string{"a", "b", "c"} {
		p, err := n.AddPod(fmt.Sprintf("6f1d0d7c-2b4e-4a51-9c8a-00000000030%d", i), sandbox.Burstable, "app", "side")
		if err != nil {
			t.Fatal(err)
		}
		n.pods[name] = p
		known = append(known, signals.Pod{UID: p.UID, Namespace: "n", Name: name, Containers: []signals.Container{{Name: "app", ID: "app"}, {Name: "side", ID: "side"}}})
	}
	places := cgroup.NewPodPlaces(h, n.Path())
	if _, err := places.Open(); err != nil {
		t.Fatal(err)
	}
	capacity, err := stats.MachineMemory("/proc")
	if err != nil {
		t.Fatal(err)
	}
	reader := stats.NewHeldReader(h, places, n.Path(), "/proc")
	n.recorder = stats.NewHeldReader(h, cgroup.NewPodPlaces(h, n.Path()), n.Path(), "/proc")
	var read time.Time // end of the first reading: that after the first kill
	n.watch = oomWatcher{
		node: func() oomkill.Node { return oomkill.Node{Cgroup: n.Path(), Root: places.Root(), Pods: known} },
		read: func() signals.Holdings {
			reading := reader.Read()
			if read.IsZero() {
				read = reading.At
			}
			return reading
		},
		capacity: signals.Of(capacity), history: &heldHistory{},
		report: func(r *oomkill.Report, _ int, _ time.Time) {
			text := fmt.Sprintf("%s: n/? killed; %s, %s", r.Place.Level, r.HeldMost.Key(), r.GrewMost.Key())
			if r.Place.Pod != nil {
				text = fmt.Sprintf("%s: %s/%s killed; %s, %s", r.Place.Level, r.Place.Pod.Key(), r.Place.Container, r.HeldMost.Key(), r.GrewMost.Key())
			}
			a := answer{text: text, killed: r.Kill.At}
			if r.Place.Level != oomkill.ContainerLevel { // that answer needs no reading
				a.read = read
			}
			n.watch.history.use(func(*oomkill.History) { a.noted = len(n.readings) })
			select {
			case n.report <- a:
			default: // of later kills
			}
		},
	}
	return n
}

// logEpoch returns the time at which the clock of the kernel's log was zero, or an earlier one, by a record of
// its own.
func logEpoch(t *testing.T) time.Time {
	t.Helper()
	log, err := kmsg.Open(kmsg.Device)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	before := time.Now()
	text := fmt.Sprintf("plimsoll: test of OOM kills, %d", before.UnixNano())
	// Without a newline the record can be read only after the next one: its line may be continued.
	sandbox.Demand(t, "the kernel's log can not be written", os.WriteFile(kmsg.Device, []byte("<6>"+text+"\n"), 0))
	for {
		record, err := log.Next(before.Add(time.Minute))
		if err != nil && !errors.Is(err, kmsg.ErrLost) {
			t.Fatalf("the record %q: %v", text, err)
		}
		if r, ok := oomkill.ParseRecord(string(record)); ok && r.Text == text {
			return before.Add(-r.At)
		}
	}
}

// explicable reports whether readings were made in time for a complete answer about a kill. It depends on the
// times of readings and of the kernel, not on the watcher's clock or its answer.
func (n *realNode) explicable(t *testing.T, a *answer, epoch time.Time) bool {
	t.Helper()
	if a.read.IsZero() {
		return true
	}
	killed, gap, last, before := epoch.Add(a.killed), time.Duration(0), time.Time{}, 0
	n.watch.history.use(func(*oomkill.History) {
		for _, at := range n.readings[:a.noted] {
			if at.After(killed) {
				break
			}
			before++
			if !last.IsZero() {
				gap = max(gap, at.Sub(last))
			}
			last = at
		}
	})
	gap = max(gap, killed.Sub(last)) // large without any reading
	t.Logf("read %s after the kill, %d readings before, at most %s between them", a.read.Sub(killed), before, gap)
	return a.read.Sub(killed) <= maxReadDelay && gap <= maxReadGap && before >= minBefore
}

// limit sets a memory limit of a cgroup.
func (n *realNode) limit(t *testing.T, what string, bytes int64) {
	t.Helper()
	controller, file := "memory", "memory.limit_in_bytes"
	if n.Version() == 2 {
		controller, file = sandbox.Unified, "memory.max"
	}
	dir := filepath.Join(n.Dir(controller), "kubepods")
	switch pod, container := filepath.Split(what); {
	case pod != "":
		dir = n.pods[filepath.Clean(pod)].ContainerDir(controller, container)
	case what != "pods":
		dir = n.pods[what].Dir(controller)
	}
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, bytes), 0); err != nil {
		t.Fatal(err)
	}
}

// record stores four readings a second until ctx ends.
func (n *realNode) record(ctx context.Context) {
	repeat(ctx, 250*time.Millisecond, func() bool {
		reading := n.recorder.Read()
		n.watch.history.use(func(history *oomkill.History) {
			history.Note(&reading)
			n.readings = append(n.readings, reading.At)
		})
		return true
	})
}

// run causes a kill. It returns the report about it, and whether readings could explain the kill.
func (n *realNode) run(t *testing.T, c *realOOM) (got string, explicable bool) {
	t.Helper()
	log, err := kmsg.Open(kmsg.Device)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.watch.watch(log) }()
	defer func() {
		_ = log.Close()
		if err := <-ended; !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}()
	epoch := logEpoch(t)
	for what, bytes := range c.limits {
		n.limit(t, what, bytes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	grow := map[*sandbox.Hog]string{}
	for _, h := range c.runs {
		var commands []string
		if h.fill != "" {
			commands = append(commands, h.fill)
		}
		started := n.Run(t, n.pods[h.pod], h.container, commands...)
		if h.grow != "" {
			grow[started] = h.grow
		}
	}
	go n.record(ctx)
	<-time.After(2 * time.Second) // readings before the growth
	for started, command := range grow {
		go repeat(ctx, 200*time.Millisecond, func() bool {
			_, err := started.Do(ctx, command)
			return err == nil
		})
	}
	select {
	case a := <-n.report:
		return a.text, n.explicable(t, &a, epoch)
	case <-ctx.Done():
		return "no kill", true
	}
}

// TestOOMWatcher_ExplainsRealKills causes kills of every kind on the real kernel, with four readings a
// second. No answer may be wrong, and of many nineteen of twenty must be known. Of the latter, kills without
// readings in time are left out.
func TestOOMWatcher_ExplainsRealKills(t *testing.T) {
	sandbox.Need(t)
	log, err := kmsg.Open(kmsg.Device)
	if sandbox.Demand(t, "the kernel's log can not be read", err) {
		_ = log.Close()
	}
	right, all, unread := 0, 0, 0
	for round := range *oomRounds {
		for name, c := range realOOMs {
			t.Run(fmt.Sprintf("%s %d", name, round), func(t *testing.T) {
				if c.burst {
					defer func() { <-time.After(scopePeriod) }()
				}
				got, explicable := newRealNode(t).run(t, &c)
				if wrong := wrongPart(got, c.want); wrong != "" {
					t.Errorf("%s, want %s or unknown", got, c.want)
				}
				t.Log(got)
				switch {
				case !explicable:
					unread++
					return
				case got == c.want, c.want == "":
					right++
				}
				all++
			})
		}
	}
	t.Logf("%d of %d answers are complete; %d more kills were without readings in time", right, all, unread)
	if minRight := all*19/20 - 2; right < minRight { // a round is too short for a share
		t.Errorf("%d of %d answers are complete, want %d", right, all, minRight)
	}
}

// wrongPart returns the part of an answer that is neither unknown nor the wanted one.
func wrongPart(got, want string) string {
	parts := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(":;,", r) })
	}
	wanted := parts(want)
	for i, part := range parts(got) {
		if part = strings.TrimSpace(part); part != "unknown" && i < len(wanted) && part != strings.TrimSpace(wanted[i]) {
			return part
		}
	}
	return ""
}
