package app

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// restarted is a program with the state that the one before it has left.
func restarted(t *testing.T, path string, log *slog.Logger) *app {
	t.Helper()
	file, err := checkpoint.Open(path, "boot")
	if err != nil {
		t.Fatal(err)
	}
	sections, _, err := checkpoint.OpenSections(file, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	c := config.NewAgent()
	c.EvictionsPerHour = 1
	return &app{config: c, state: sections, log: log}
}

func TestARestartGivesNoEvictionsBack(t *testing.T) {
	book, path, now := &logcapture.Book{}, filepath.Join(t.TempDir(), "state.json"), time.Now()
	first := restarted(t, path, book.Logger())
	r := first.openLimiter(now)
	if r.Spent("ns", false, now).By != limiter.None {
		t.Fatal("a new agent has a past")
	}
	r.Evicted("ns", "owner", now)
	first.saveLimiter(r.Save())
	first.state.Close()
	second := restarted(t, path, book.Logger())
	if hold := second.openLimiter(now).Spent("ns", false, now); hold.By != limiter.Budget || hold.Until.Sub(now) != time.Hour {
		t.Errorf("after a restart: %+v", hold)
	}
	second.state.Save(limiterSection, "no restraint at all")
	second.state.Close()
	third := restarted(t, path, book.Logger())
	defer third.state.Close()
	if third.openLimiter(now).Spent("ns", false, now).By != limiter.None || book.Count("forgotten") != 1 {
		t.Error("a section that is none is not told of, or used")
	}
}

func TestAnEventNamesWhoHoldsMost(t *testing.T) {
	held := []signals.Holder{{Name: "cgroup daemon", Bytes: 300 << 20}, {Name: "pods (kubepods)", Bytes: 100 << 20}, {Name: "slab, unreclaimable", Bytes: 3 << 20}, {Name: "page tables", Bytes: 1 << 20}}
	if got, want := consumersText(held), "; held by cgroup daemon 300Mi, pods (kubepods) 100Mi, slab, unreclaimable 3Mi"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := consumersText(nil); got != "" {
		t.Errorf("of nobody: %q", got)
	}
}
