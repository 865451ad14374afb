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

// An agent without flags changes nothing until it is armed. This holds by hand, under systemd
// and from the chart.
func TestArmingState_DisarmedByDefault(t *testing.T) {
	c, err := config.Load("", config.AddFlags(pflag.NewFlagSet("agent", pflag.ContinueOnError)))
	if err != nil {
		t.Fatal(err)
	}
	s := stateWithoutFile(c.DryRun)
	if armed, why := s.Check(); armed || !strings.Contains(why, "dryRun") {
		t.Errorf("armed %v: %s", armed, why)
	}
	s.update(func(w *arming.Inputs) {
		w.Read(arming.Source{Setting: "armed"}, arming.Source{})
		w.Findings.Known = true
	})
	if armed, why := s.Check(); !armed {
		t.Errorf("not armed by the setting: %s", why)
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
		{"file created", func() error { return file.Create("created by the test") }, false},
		{"file created again", func() error { return file.Create("created by the test") }, false},
		{"file removed", file.Remove, true},
		{"file removed again", file.Remove, true},
		{"dangling link", func() error { return os.Symlink("/nowhere", string(file)) }, false},
		{"file created over a link", func() error { return file.Create("created by the test") }, false},
		{"link removed", file.Remove, true},
		{"directory in its place", func() error { return os.Mkdir(string(file), 0o700) }, false},
		{"directory removed", file.Remove, true},
		{"parent directory removed", func() error { return os.Remove(filepath.Dir(string(file))) }, true},
		{"file in place of the parent directory", func() error { return os.WriteFile(filepath.Dir(string(file)), nil, 0o600) }, false},
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
		t.Errorf("%d changes were reported, want 7", changes)
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
	var reported atomic.Bool
	s.onChange(func() { reported.Store(s.armed()) })
	for round := range 200 {
		if err := file.Create("created by the test"); err != nil {
			t.Fatal(err)
		}
		s.Check()
		if err := file.Remove(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		var late sync.WaitGroup
		late.Go(func() { s.Check() })
		for range 1000 { // mostly long enough to check the file and to wait for the lock
			runtime.Gosched()
		}
		err := file.Create("created by the test")
		s.mu.Unlock()
		late.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if s.armed() || reported.Load() {
			t.Fatalf("round %d: armed %v, reported %v although the file exists", round, s.armed(), reported.Load())
		}
	}
}

func TestArmingState_SignalWithoutFileDisarms(t *testing.T) {
	s := newTestState("", false)
	if err := disarmfile.File("").Create("created by the test"); err == nil {
		t.Error("a file without a name was created")
	}
	s.update(func(w *arming.Inputs) { w.Signaled = true })
	if armed, _ := s.Check(); armed {
		t.Error("not disarmed by the signal")
	}
}

// A new file takes effect without a check.
func TestWatchDisarmFile_FollowsDirectory(t *testing.T) {
	file := disarmfile.File(filepath.Join(t.TempDir(), "disarm"))
	changed := make(chan struct{}, 100)
	s := newTestState(file, false)
	s.onChange(func() { changed <- struct{}{} })
	watched := make(chan struct{}, 100)
	go watchDisarmFile(t.Context(), file, func() {
		s.Check()
		watched <- struct{}{}
	})
	<-watched // the first check follows the start of the watch
	if err := file.Create("created by the test"); err != nil {
		t.Fatal(err)
	}
	<-changed
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
	s.update(func(w *arming.Inputs) {
		w.Read(arming.Source{Setting: "armed"}, arming.Source{})
		w.Findings = arming.Findings{Known: true}
	})
	if !s.armed() || !saved.Acted {
		t.Fatalf("%+v, saved %+v", s.current(), saved)
	}
	if next := newArmingState("", true, saved, func(arming.Memory) {}, slog.New(slog.DiscardHandler)); !next.armed() {
		t.Errorf("successor without inputs: %+v, want armed", next.current())
	}
}

func TestArmingState_SafeForConcurrentUse(t *testing.T) {
	s := newTestState(disarmfile.File(filepath.Join(t.TempDir(), "disarm")), true)
	var reported atomic.Int64
	s.onChange(func() { reported.Add(1) })
	s.update(func(w *arming.Inputs) { w.Findings.Known = true })
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 500 {
				s.update(func(w *arming.Inputs) { w.Read(arming.Source{Setting: "armed"}, arming.Source{}) })
				s.update(func(w *arming.Inputs) { w.Read(arming.Source{Setting: "disarmed"}, arming.Source{}) })
			}
		})
		group.Go(func() {
			for range 500 {
				now := s.current()
				if armed, why := s.Check(); why == "" {
					t.Errorf("armed %v without a reason", armed)
				}
				select {
				case <-now.superseded:
				default:
				}
			}
		})
	}
	group.Wait()
	if s.armed() || reported.Load() == 0 {
		t.Errorf("%+v after %d changes", s.current(), reported.Load())
	}
}

func TestArmingState_WaitsUntilArmed(t *testing.T) {
	s := stateWithoutFile(true)
	begun := make(chan bool)
	go func() { begun <- s.waitArmed(t.Context()) }()
	s.update(func(w *arming.Inputs) { w.DryRun = false })
	if !<-begun {
		t.Error("waitArmed returned false after arming")
	}
}

// BenchmarkCheck measures the check on the path to a kill.
func BenchmarkCheck(b *testing.B) {
	for about, dir := range map[string]string{"directory": b.TempDir(), "no directory": "/nowhere"} {
		b.Run(about, func(b *testing.B) {
			s := newTestState(disarmfile.File(filepath.Join(dir, "disarm")), false)
			b.ReportAllocs()
			for b.Loop() {
				s.Check()
			}
		})
	}
}

func TestCatchDisarmSignal_ReceivesSIGUSR1(t *testing.T) {
	p := &app{}
	p.catchDisarmSignal()
	defer p.closers[0]()
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.disarmSignals:
	case <-time.After(10 * time.Second):
		t.Fatal("the signal was not received")
	}
}
