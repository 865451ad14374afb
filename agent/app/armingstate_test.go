package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
)

// stateWithoutFile returns a state with the flag as its only input.
func stateWithoutFile(dryRun bool) *armingState { return newTestState("", dryRun) }

func newTestState(file disarmfile.File, dryRun bool) *armingState {
	return newArmingState(file, dryRun, arming.Memory{}, func(arming.Memory) {}, slog.New(slog.DiscardHandler))
}

// An agent without flags changes nothing until it is armed: by hand, under systemd and from
// the chart.
func TestArmingState_DisarmedByDefault(t *testing.T) {
	c, err := config.Load("", config.AddFlags(pflag.NewFlagSet("agent", pflag.ContinueOnError)))
	if err != nil {
		t.Fatal(err)
	}
	s := stateWithoutFile(c.DryRun)
	if armed, why := s.Check(); armed || !strings.Contains(why, "dryRun") {
		t.Errorf("armed %v: %s", armed, why)
	}
	s.update(func(w *arming.Words) {
		w.Hear(arming.Voice{Word: "armed"}, arming.Voice{})
		w.Findings.Known = true
	})
	if armed, why := s.Check(); !armed {
		t.Errorf("not armed by a word: %s", why)
	}
}

func TestArmingState_FileDisarms(t *testing.T) {
	dir := t.TempDir()
	file := disarmfile.File(filepath.Join(dir, "sub", "disarm"))
	s, changes := newTestState(file, false), 0
	s.onChange(func() { changes++ })
	steps := []struct {
		about string
		do    func() error
		armed bool
	}{
		{"no directory", func() error { return nil }, true},
		{"made", func() error { return file.Create("by a test") }, false},
		{"made again", func() error { return file.Create("by a test") }, false},
		{"removed", file.Remove, true},
		{"removed again", file.Remove, true},
		{"a link to nowhere", func() error { return os.Symlink("/nowhere", string(file)) }, false},
		{"made over a link", func() error { return file.Create("by a test") }, false},
		{"the link removed", file.Remove, true},
		{"a directory", func() error { return os.Mkdir(string(file), 0o700) }, false},
		{"the directory removed", file.Remove, true},
		{"no directory any more", func() error { return os.Remove(filepath.Dir(string(file))) }, true},
		{"a file in its place", func() error { return os.WriteFile(filepath.Dir(string(file)), nil, 0o600) }, false},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.about, err)
		}
		if armed, why := s.Check(); armed != step.armed || s.armed() != step.armed {
			t.Errorf("%s: armed %v (%s)", step.about, armed, why)
		}
	}
	if changes != 7 {
		t.Errorf("%d changes were told of, want 7", changes)
	}
	if _, err := os.Stat("/nowhere"); err == nil {
		t.Error("the link was followed")
	}
}

// A check that began before the file was created must not replace the result of a later
// one.
func TestArmingState_LatestStateOfFileCounts(t *testing.T) {
	file := disarmfile.File(filepath.Join(t.TempDir(), "disarm"))
	s := newTestState(file, false)
	var told atomic.Bool
	s.onChange(func() { told.Store(s.armed()) })
	for round := range 200 {
		if err := file.Create("by a test"); err != nil {
			t.Fatal(err)
		}
		s.Check()
		if err := file.Remove(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		var late sync.WaitGroup
		late.Go(func() { s.Check() })
		for range 1000 { // mostly long enough for it to look, and to wait
			runtime.Gosched()
		}
		err := file.Create("by a test")
		s.mu.Unlock()
		late.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if s.armed() || told.Load() {
			t.Fatalf("round %d: the file is there; armed: %v, and told: %v", round, s.armed(), told.Load())
		}
	}
}

func TestArmingState_SignalWithoutFileDisarms(t *testing.T) {
	s := newTestState("", false)
	if err := disarmfile.File("").Create("by a test"); err == nil {
		t.Error("a file without a name was made")
	}
	s.update(func(w *arming.Words) { w.Signaled = true })
	if armed, _ := s.Check(); armed {
		t.Error("not disarmed")
	}
}

// A new file takes effect without a check.
func TestWatchDisarmFile_FollowsDirectory(t *testing.T) {
	file := disarmfile.File(filepath.Join(t.TempDir(), "disarm"))
	heard := make(chan struct{}, 100)
	s := newTestState(file, false)
	s.onChange(func() { heard <- struct{}{} })
	watched := make(chan struct{}, 100)
	go watchDisarmFile(t.Context(), file, func() {
		s.Check()
		watched <- struct{}{}
	})
	<-watched // it looks once it is notified
	if err := file.Create("by a test"); err != nil {
		t.Fatal(err)
	}
	<-heard
	if s.armed() {
		t.Error("not disarmed")
	}
	if err := file.Remove(); err != nil {
		t.Fatal(err)
	}
	for !s.armed() {
		<-watched
	}
}

func TestArmingState_SavesSettings(t *testing.T) {
	var saved arming.Memory
	s := newArmingState("", true, arming.Memory{}, func(m arming.Memory) { saved = m }, slog.New(slog.DiscardHandler))
	s.update(func(w *arming.Words) {
		w.Hear(arming.Voice{Word: "armed"}, arming.Voice{})
		w.Findings = arming.Findings{Known: true}
	})
	if !s.armed() || !saved.Acted {
		t.Fatalf("%+v, saved %+v", s.current(), saved)
	}
	if next := newArmingState("", true, saved, func(arming.Memory) {}, slog.New(slog.DiscardHandler)); !next.armed() {
		t.Errorf("a successor that nobody speaks to: %+v", next.current())
	}
}

func TestArmingState_ConcurrentUse(t *testing.T) {
	s := newTestState(disarmfile.File(filepath.Join(t.TempDir(), "disarm")), true)
	var told atomic.Int64
	s.onChange(func() { told.Add(1) })
	s.update(func(w *arming.Words) { w.Findings.Known = true })
	var crew sync.WaitGroup
	for range 4 {
		crew.Go(func() {
			for range 500 {
				s.update(func(w *arming.Words) { w.Hear(arming.Voice{Word: "armed"}, arming.Voice{}) })
				s.update(func(w *arming.Words) { w.Hear(arming.Voice{Word: "disarmed"}, arming.Voice{}) })
			}
		})
		crew.Go(func() {
			for range 500 {
				now := s.current()
				if armed, why := s.Check(); why == "" {
					t.Errorf("armed %v, and nobody knows why", armed)
				}
				select {
				case <-now.superseded:
				default:
				}
			}
		})
	}
	crew.Wait()
	if s.armed() || told.Load() == 0 {
		t.Errorf("%+v after %d changes", s.current(), told.Load())
	}
}

func TestArmingState_WaitsUntilArmed(t *testing.T) {
	s := stateWithoutFile(true)
	begun := make(chan bool)
	go func() { begun <- s.waitArmed(t.Context()) }()
	s.update(func(w *arming.Words) { w.DryRun = false })
	if !<-begun {
		t.Error("armed, and nobody has heard")
	}
}

// BenchmarkCheck measures the check on the path to a kill.
func BenchmarkCheck(b *testing.B) {
	for about, dir := range map[string]string{"there is a directory": b.TempDir(), "there is none": "/nowhere"} {
		b.Run(about, func(b *testing.B) {
			s := newTestState(disarmfile.File(filepath.Join(dir, "disarm")), false)
			b.ReportAllocs()
			for b.Loop() {
				s.Check()
			}
		})
	}
}

func TestCatchDisarmSignal(t *testing.T) {
	p := &app{}
	p.catchDisarmSignal()
	defer p.closers[0]()
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.disarmSignals:
	case <-time.After(10 * time.Second):
		t.Fatal("not heard")
	}
}
