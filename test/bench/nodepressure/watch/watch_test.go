package watch

import (
	"bufio"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// TestNote_FindsMoments feeds readings and looks at the report.
func TestNote_FindsMoments(t *testing.T) {
	const ms = int64(time.Millisecond)
	w := &witness{Input: Input{Threshold: 100, Slot: 10 * time.Millisecond, Slots: 3}, least: math.MaxInt64}
	w.note(1*ms, 5) // before the incident: nothing counts
	w.seen.Begin, w.last = 2*ms, 2*ms
	for _, r := range []struct{ at, free int64 }{{3, 5 << 20}, {4, 4 << 20}, {14, 2 << 20}, {15, 100}, {16, 99}, {19, 3 << 20}, {33, 2 << 20}, {90, 7}} {
		w.note(r.at*ms, r.free)
	}
	want := Report{
		Samples: 9, MaxGap: 57 * ms, Begin: 2 * ms, Crossed: 16 * ms, Exhausted: 15 * ms, Least: 7,
		Slots: []int64{4 << 20, 99, 2 << 20},
	}
	if !reflect.DeepEqual(w.seen, want) {
		t.Errorf("got  %+v\nwant %+v", w.seen, want)
	}
}

func TestReadPods_CountsKillsAndCache(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w := &witness{buffer: make([]byte, 4096), least: 42}
	for id, events := range []string{"low 0\noom_kill 0\n", "oom_kill_disable 0\noom_kill 0\n"} {
		name := string(rune('a' + id))
		if err := w.add(Pod{ID: id, Stat: file(name+"stat", "anon 9\ninactive_file 100\nactive_file 20\n"), Events: file(name+"events", events)}); err != nil {
			t.Fatal(err)
		}
	}
	w.readPods(1)
	if w.cache != 240 || w.seen.Kills != nil {
		t.Errorf("cache %d, kills %v, want 240 and none", w.cache, w.seen.Kills)
	}
	file("bevents", "oom_kill_disable 0\noom_kill 3\n")
	w.readPods(2)
	w.readPods(3)
	if want := []Kill{{1, 2, 3, 42}}; !reflect.DeepEqual(w.seen.Kills, want) {
		t.Errorf("kills %v, want %v", w.seen.Kills, want)
	}
}

// TestNoteDeaths_StopsWatching ends the processes one by one.
func TestNoteDeaths_StopsWatching(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	var pids []int
	for range 3 {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatalf("start a program to watch: %v", err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		all, pids = append(all, cmd), append(pids, cmd.Process.Pid)
	}
	w := &witness{buffer: make([]byte, 4096), polls: []unix.PollFd{{Fd: -1}}, least: 8}
	if err := w.add(Pod{ID: 4, Stat: empty, Events: empty, PIDs: pids}); err != nil {
		t.Fatal(err)
	}
	for i, cmd := range all {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := unix.Ppoll(w.polls, nil, nil); err != nil {
			t.Fatal(err)
		}
		if !w.noteDeaths(int64(100+i)) || len(w.seen.Deaths) != i+1 {
			t.Fatalf("deaths %+v after the end of process %d", w.seen.Deaths, i)
		}
		if d, want := w.seen.Deaths[i], (Death{Pod: 4, PID: pids[i], At: int64(100 + i), Least: 8}); d != want {
			t.Errorf("got %+v, want %+v", d, want)
		}
	}
	if len(w.polls) != 1 || len(w.owners) != 0 {
		t.Errorf("still watches %d processes", len(w.owners))
	}
	if err := w.add(Pod{ID: 5, Stat: empty, Events: empty, PIDs: pids[:1]}); err != nil || len(w.seen.Deaths) != 4 {
		t.Errorf("a process that has ended already: %v, deaths %+v", err, w.seen.Deaths)
	}
}

func TestObey_EndsWithItsInput(t *testing.T) {
	w := &witness{orders: bufio.NewReader(strings.NewReader("{\"Begin\":true}\n{\"End\":true}\n"))}
	if err := w.obey(77); err != nil || !w.ended || w.seen.Begin != 77 {
		t.Errorf("%v, ended %v, begin %d", err, w.ended, w.seen.Begin)
	}
	if err := w.obey(78); err == nil {
		t.Error("went on without a referee")
	}
}

// TestSample_CountsCacheAsAvailable checks that a cgroup's page cache counts, and never more than all.
func TestSample_CountsCacheAsAvailable(t *testing.T) {
	usage := filepath.Join(t.TempDir(), "usage")
	if err := os.WriteFile(usage, []byte("900"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &witness{Input: Input{Gauge: gauge.Gauge{Usage: usage, Total: 1000}, Slot: time.Second, Slots: 1}, buffer: make([]byte, 4096), polls: make([]unix.PollFd, 1)}
	var err error
	if w.file, err = w.Gauge.Open(); err != nil {
		t.Fatal(err)
	}
	defer w.file.Close()
	w.seen.Begin, w.least, w.seen.Samples = 1, math.MaxInt64, 1
	for _, c := range []struct{ cache, want int64 }{{0, 100}, {50, 150}, {950, 1000}, {-101, 0}} {
		w.cache, w.least = c.cache, math.MaxInt64
		if err := w.sample(2); err != nil || w.least != c.want {
			t.Errorf("cache %d: %d available, %v, want %d", c.cache, w.least, err, c.want)
		}
		w.seen.Samples = 1 // the pods' files are not read
	}
}
