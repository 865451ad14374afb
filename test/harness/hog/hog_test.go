package hog

import (
	"context"
	"fmt"
	_ "net" // with cgo it links libc
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	RunIfSet()
	os.Exit(m.Run())
}

// TestCrowd_StartsAllProcesses: a crowd has its number of small processes with every build configuration.
func TestCrowd_StartsAllProcesses(t *testing.T) {
	const processes = 40
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	d.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := d.Cmd.Process.Pid
	t.Cleanup(func() {
		_ = syscall.Kill(-group, syscall.SIGKILL)
		_ = d.Cmd.Wait()
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Do(ctx, fmt.Sprintf("crowd %d", processes)); err != nil {
		t.Fatal(err)
	}
	for n := 0; n != processes+1; n = members(t, group) {
		if ctx.Err() != nil {
			t.Fatalf("%d processes of %d", n-1, processes)
		}
	}
}

// members counts the processes of a process group.
func members(t *testing.T, group int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has exited
		}
		_, after, _ := strings.Cut(string(text), ") ") // state, parent, group
		if f := strings.Fields(after); len(f) > 2 && f[2] == strconv.Itoa(group) {
			n++
		}
	}
	return n
}

func TestParse_ReadsCommands(t *testing.T) {
	for line, want := range map[string]command{
		"fill 1GiB":                              {verb: "fill", size: 1 << 30},
		"fill 100MiB at 5MiB/s":                  {verb: "fill", size: 100 << 20, rate: 5 << 20},
		"dip 64KiB for 2s":                       {verb: "dip", size: 64 << 10, duration: 2 * time.Second},
		"cache 4096 in /tmp fsync drop":          {verb: "cache", size: 4096, dir: "/tmp", fsync: true, drop: true},
		"thrash 1MiB in /tmp for 1m":             {verb: "thrash", size: 1 << 20, dir: "/tmp", duration: time.Minute},
		"random 8MiB in /tmp for 2s":             {verb: "random", size: 8 << 20, dir: "/tmp", duration: 2 * time.Second},
		"unpack 9MiB in /tmp at 1MiB/s":          {verb: "unpack", size: 9 << 20, dir: "/tmp", rate: 1 << 20},
		"tmpfs 9MiB at 1MiB/s for 1s":            {verb: "tmpfs", size: 9 << 20, rate: 1 << 20, duration: time.Second},
		"jvm 1GiB for 1s":                        {verb: "jvm", size: 1 << 30, duration: time.Second},
		"term after 50ms":                        {verb: "term", word: "after", duration: 50 * time.Millisecond},
		"term ignore":                            {verb: "term", word: "ignore"},
		"fork 10":                                {verb: "fork", count: 10},
		"  hold  ":                               {verb: "hold"},
		"dip 1MiB at 1MiB/s for 1ms":             {verb: "dip", size: 1 << 20, rate: 1 << 20, duration: time.Millisecond},
		"cache 1MiB in /var/tmp at 10MiB/s drop": {verb: "cache", size: 1 << 20, dir: "/var/tmp", rate: 10 << 20, drop: true},
	} {
		got, err := parse(line)
		if err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"", "eat", "fill", "fill -1", "fill 1TB", "fill 9GiB9", "fill 1MiB at", "fill 1MiB for 1s", "dip 1MiB",
		"fork -1", "fork 1000000", "term", "term now", "hold 1", "fill 1 at 1 at 2", "fill 9999999999999GiB",
		"random 1MiB for 1s", "random 1MiB in /tmp", "unpack 1MiB", "unpack 1MiB in /tmp fsync", "tmpfs 1MiB", "jvm 1MiB", "jvm for 1s",
	} {
		if c, err := parse(line); err == nil {
			t.Errorf("parse(%q) = %+v, want an error", line, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"fill 1GiB at 5MiB/s", "dip 1 for 1s", "cache 1 in / fsync drop", "term after 1s", "fork 3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parse(line)
		if err == nil && (c.size < 0 || c.rate < 0 || c.count < 0 || c.count > maxCount) {
			t.Errorf("parse(%q) = %+v", line, c)
		}
	})
}

func TestPace_LimitsRate(t *testing.T) {
	for _, rate := range []int64{1, 5 << 20, 500 << 20, 10 << 30} {
		p := newPace(rate)
		if s := p.step(); s < page || s%page != 0 || s > page && s > rate/1000 {
			t.Errorf("a step at %d bytes/s is %d bytes: want whole pages of a millisecond", rate, s)
		}
	}
	p := newPace(1 << 20)
	p.wait(1 << 16)
	if took := time.Since(p.begin); took < 62500*time.Microsecond {
		t.Errorf("64KiB at 1MiB/s took %v, want at least 62.5ms", took)
	}
}

func TestEvenPace_DoesNotCatchUp(t *testing.T) {
	const rate, done = 1 << 20, 1 << 16 // 62.5 ms
	p := evenPace(rate)
	p.begin = p.begin.Add(-time.Second) // a stall
	begin := time.Now()                 // before the pace is reset: this test can be interrupted, too
	p.wait(done)
	p.wait(2 * done)
	if took := time.Since(begin); took < 62500*time.Microsecond {
		t.Errorf("64KiB at 1MiB/s took %v after a stall, want 62.5ms", took)
	}
	p = newPace(rate)
	p.begin = p.begin.Add(-time.Second)
	if left := p.left(done); left > 0 {
		t.Errorf("a pace behind its deadlines waits %v, want no wait", left)
	}
}

func TestRun_AnswersEveryCommand(t *testing.T) {
	var out strings.Builder
	script := "fill 1MiB; dip 1MiB for 1ms; release"
	if code := run(script, strings.NewReader("cache 1MiB in /tmp drop\nnonsense\nspin for 1ms\n"), &out); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{"ready", "done fill", "deep 1048576", "done dip", "done release", "done cache", "failed nonsense", "done spin"}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), out.String())
	}
	for i, prefix := range want {
		if !strings.HasPrefix(lines[i], prefix) {
			t.Errorf("line %d is %q, want %s…", i, lines[i], prefix)
		}
	}
}

func TestCommands_RemoveFiles(t *testing.T) {
	for name, does := range map[string]func(command) error{"random": random, "unpack": unpack, "cache": stream} {
		dir := t.TempDir()
		if err := does(command{size: 40<<20 + 5, dir: dir, duration: 20 * time.Millisecond}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s did not remove %v, %v", name, left, err)
		}
	}
}

// TestCommands_ReleaseMemory checks that every course of memory stays within its size and rate, and
// ends without any memory.
func TestCommands_ReleaseMemory(t *testing.T) {
	const size, rate = 32 << 20, 256 << 20
	for name, does := range map[string]func(*process, command) error{"dip": (*process).dip, "tmpfs": (*process).tmpfs, "jvm": (*process).jvm} {
		var out strings.Builder
		p := &process{out: &out}
		begin := time.Now()
		if err := does(p, command{size: size + 1, rate: rate, duration: 30 * time.Millisecond}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took < 150*time.Millisecond {
			t.Errorf("%s took %v, want at least %v at %d bytes/s and 30ms", name, took, 125*time.Millisecond, rate)
		}
		if want := fmt.Sprintf("deep %d\n", size+1); out.String() != want {
			t.Errorf("%s printed %q, want %q", name, out.String(), want)
		}
		if len(p.regions) > 0 {
			t.Errorf("%s has %d regions after its end, want none", name, len(p.regions))
		}
	}
	if err := (&process{}).jvm(command{size: 4096}); err == nil {
		t.Error("a heap of one page was accepted")
	}
}
