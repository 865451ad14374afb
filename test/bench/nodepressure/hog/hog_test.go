package hog

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes this binary a child too: package role imports this one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		os.Exit(RunChild(os.Stdin, len(os.Args) > 2))
	}
	if len(os.Args) > 1 && os.Args[1] == "hog" {
		os.Exit(Run(os.Args[2]))
	}
	os.Exit(m.Run())
}

const mib = 1 << 20

func newProcess(t *testing.T) *process {
	dir := t.TempDir()
	return &process{Program: Program{Scratch: dir, Lost: filepath.Join(dir, "lost")}}
}

func (p *process) touched() (n int64) {
	for _, r := range p.regions {
		n += r.touched
	}
	return n
}

func TestSteps_ChangeMemory(t *testing.T) {
	p := newProcess(t)
	for _, c := range []struct {
		step Step
		want int64 // touched after it
	}{
		{Step{Verb: "grow", Bytes: 3 * mib}, 3 * mib},
		{Step{Verb: "grow", Bytes: 1*mib + 1}, 4*mib + 1},
		{Step{Verb: "dirty", Bytes: 9 * mib}, 4*mib + 1},
		{Step{Verb: "release", Bytes: 2 * mib}, 2 * mib},
		{Step{Verb: "repeat", Count: 2, Steps: []Step{{Verb: "grow", Bytes: mib}}}, 4 * mib},
		{Step{Verb: "release"}, 0},
		{Step{Verb: "release", Bytes: mib}, 0},
	} {
		if err := p.step(&c.step); err != nil {
			t.Fatalf("%+v: %v", c.step, err)
		}
		if got := p.touched(); got < c.want-page || got > c.want+page {
			t.Errorf("after %s: %d bytes touched, want %d", c.step.Verb, got, c.want)
		}
	}
	if err := p.step(&Step{Verb: "dirty", Bytes: 1}); err == nil {
		t.Error("wrote to memory that was released")
	}
	if err := p.step(&Step{Verb: "dance"}); err == nil {
		t.Error("an unknown verb was accepted")
	}
}

func TestSteps_AllBut(t *testing.T) {
	p := newProcess(t)
	usage := filepath.Join(p.Scratch, "usage")
	if err := os.WriteFile(usage, []byte("1048576"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Gauge.Usage, p.Gauge.Total = usage, 8*mib
	if err := p.step(&Step{Verb: "grow", Bytes: 3 * mib, AllBut: true}); err != nil || p.touched() != 4*mib {
		t.Errorf("grew by %d, %v, want 4 MiB of the 7 that are free", p.touched(), err)
	}
	if err := p.step(&Step{Verb: "grow", Bytes: 9 * mib, AllBut: true}); err != nil || p.touched() != 4*mib {
		t.Errorf("grew to %d, %v, although less is free than shall remain", p.touched(), err)
	}
}

func TestSteps_UseFiles(t *testing.T) {
	p := newProcess(t)
	for _, s := range []Step{
		{Verb: "write", Bytes: 2*mib + 5}, {Verb: "read", Time: 5 * time.Millisecond}, {Verb: "map", Bytes: mib}, {Verb: "files", Count: 30}, {Verb: "shared", Bytes: mib},
		{Verb: "spawn", Count: 2, Steps: []Step{{Verb: "shared", Bytes: mib}}},
	} {
		if err := p.step(&s); err != nil {
			t.Errorf("%s: %v", s.Verb, err)
		}
	}
	for name, f := range map[string]*os.File{"disk": p.file, "memory": p.shared} {
		want := map[string]int64{"disk": 2*mib + 5, "memory": 3 * mib}[name]
		if info, err := f.Stat(); err != nil || info.Size() != want {
			t.Errorf("the file on %s: %v, %v, want %d bytes", name, info.Size(), err, want)
		}
	}
	if made, err := filepath.Glob(filepath.Join(p.Scratch, "files-*", "*")); err != nil || len(made) != 30 {
		t.Errorf("%d files, %v, want 30", len(made), err)
	}
}

// TestSpawn_NotesKilledChildren checks that a child that a signal ended is noted, and one that exits is not.
func TestSpawn_NotesKilledChildren(t *testing.T) {
	p := newProcess(t)
	cmd, err := p.child(&Step{Steps: []Step{{Verb: "hold", Time: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.await(cmd)
	if err := p.step(&Step{Verb: "spawn", Count: 2, AtOnce: 1, Steps: []Step{{Verb: "exit", Count: 3}}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.Lost)
	if n := len(strings.Fields(string(text))); err != nil || n != 1 {
		t.Errorf("%d children noted, %v, want the one that was killed", n, err)
	}
}

func TestSnapshot_EndsByItself(t *testing.T) {
	begin := time.Now()
	pid, err := fork(20 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || !status.Exited() || status.ExitStatus() != 0 || time.Since(begin) < 20*time.Millisecond {
		t.Errorf("%v, status %v after %v, want an exit after 20 ms", err, status, time.Since(begin))
	}
}

// TestRun_WaitsForGate starts a hog whose gate is closed, and opens it or lets it be.
func TestRun_WaitsForGate(t *testing.T) {
	for _, c := range []struct {
		content string
		code    int
	}{{Open, 7}, {"", 0}} {
		dir := t.TempDir()
		p := Program{Gate: filepath.Join(dir, "gate"), Ready: filepath.Join(dir, "ready"), Scratch: dir, Before: []Step{{Verb: "grow", Bytes: mib}}, Steps: []Step{{Verb: "exit", Count: 7}}}
		gate, err := os.Create(p.Gate)
		if err != nil {
			t.Fatal(err)
		}
		defer gate.Close()
		if err := unix.Flock(int(gate.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "program")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "hog", file)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for !exists(p.Ready) {
			select {
			case err := <-ended:
				t.Fatalf("the hog ended before it was ready: %v", err)
			default:
				_, _ = unix.Poll(nil, 1)
			}
		}
		if _, err := gate.WriteString(c.content); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(gate.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		<-ended // the state contains the result
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("a gate with %q: exit code %d, want %d", c.content, got, c.code)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func TestPace_DoesNotExceedRate(t *testing.T) {
	p := newPace(1 << 20)
	if s := p.step(); s < page || s%page != 0 {
		t.Errorf("a step is %d bytes, want whole pages", s)
	}
	p.wait(1 << 16)
	if took := time.Since(p.begin); took < 62500*time.Microsecond {
		t.Errorf("64 KiB at 1 MiB/s took %v, want at least 62.5 ms", took)
	}
}

// TestServe_RecordsRequests serves until the file is full.
func TestServe_RecordsRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records")
	if err := CreateRecords(file, 1000, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	ready := false
	s := Serve{Records: file, Rate: 1000, Working: hashedPerRequest, Fresh: 3 * page}
	if err := s.run(func() error { ready = true; return nil }); err != nil || !ready {
		t.Fatalf("%v, ready %v", err, ready)
	}
	all, err := ReadRecords(file)
	if err != nil || len(all) != 50 {
		t.Fatalf("%d requests, %v, want 50", len(all), err)
	}
	for i, r := range all {
		if r.Latency <= 0 || i > 0 && r.Due-all[i-1].Due != int64(time.Millisecond) {
			t.Errorf("request %d: %+v after %+v", i, r, all[max(i-1, 0)])
		}
	}
	if err := (&Serve{Records: file}).run(nil); err == nil {
		t.Error("a neighbour without a rate was accepted")
	}
}

func TestBeat_RecordsGaps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "beat")
	if err := CreateBeat(file); err != nil {
		t.Fatal(err)
	}
	w, err := words(file)
	if err != nil {
		t.Fatal(err)
	}
	w[0], w[1], w[2] = 5, 6, 7
	if b, err := ReadBeat(file); err != nil || b != (Beat{5, 6, 7}) {
		t.Errorf("got %+v, %v", b, err)
	}
	if err := ResetBeat(file); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadBeat(file); err != nil || b != (Beat{5, 6, 0}) {
		t.Errorf("after a reset: got %+v, %v", b, err)
	}
	stop := errors.New("stop")
	if err := beat(file, func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of ready", err)
	}
}
