package app

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/oomkill"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// What the decision log has is stored on the node in the same bytes: decisions, and OOM kills of the kernel.
func TestDecisions_AreThoseOfTheLog(t *testing.T) {
	h, places := podTree(t)
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nnodeName: node-7\ndecisionLogDir: " + filepath.Join(t.TempDir(), "decisions")))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{Options: Options{Version: "1.2.3"}, config: c, log: slog.New(slog.DiscardHandler), node: &node{hierarchy: h, places: places}}
	var log bytes.Buffer
	lines := decisionlog.NewLines(&log)
	m := metrics.New(metrics.Settings{LinesDropped: lines.Lost, OOMLimits: oomkill.LevelNames()})
	a.decisions = a.openDecisions()
	reports := newOOMReports(lines, m, func() bool { return false })
	reports.decisions = a.decisions
	r := &reporter{lines: lines, metrics: m, decisions: a.decisions}
	r.Report(&agent.Decision{Time: time.Now(), Decision: agent.Armed, Reason: "memory.available<100Mi & more", Choice: &decisionlog.Choice{Cause: "x"}})
	reports.reportLost(2, time.Now())
	r.Report(&agent.Decision{Time: time.Now(), Decision: agent.Disarmed})
	reports.reportLost(3, time.Now().Add(2*containerPace))
	a.closers[0]() // nothing of the last line has reached the loop
	lines.Close()

	segments, err := ring.List(c.DecisionLogDir)
	if err != nil || len(segments) != 1 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	data, err := segments[0].Read()
	if err != nil {
		t.Fatal(err)
	}
	stored := ""
	for reader, e := recording.NewReader(data), (*recording.Entry)(nil); ; {
		if e = reader.Next(); e == nil {
			break
		}
		if e.Decision != nil {
			stored += string(e.Decision.Line) + "\n"
		} else if e.Header == nil || e.Header.Node != "node-7" || e.Header.Config != nil {
			t.Errorf("%+v", e)
		}
	}
	if stored != log.String() || strings.Count(stored, "\n") != 4 || !strings.Contains(stored, "memory.available<100Mi & more") || strings.Contains(stored, "choice") {
		t.Errorf("stored\n%sthe log has\n%s", stored, &log)
	}
	if dropped, size := a.recordingStats(); dropped != 0 || size < int64(len(data)) {
		t.Errorf("%d dropped, %d bytes of %d", dropped, size, len(data))
	}
	if c.DecisionLogDir = ""; a.openDecisions() != nil {
		t.Error("decisions are stored without a directory")
	}
}

// Lines of other goroutines wait for the loop, at most so many. The loop does not wait for a goroutine that adds one.
func TestDecisions_LoopWaitsForNoGoroutine(t *testing.T) {
	s := &storedDecisions{ring: ring.Start(ring.Options{Dir: t.TempDir(), Size: ring.MinSize, Queue: 1, Header: recording.Header{Started: time.Now()}})}
	defer s.ring.Close()
	for n := range maxBeside + 3 {
		s.addBeside(n, time.Now())
	}
	s.mu.Lock() // a goroutine that lost its processor
	s.addWaiting()
	s.mu.Unlock()
	if dropped, _ := s.stats(); dropped != 3 || len(s.beside) != maxBeside {
		t.Errorf("%d dropped, %d wait", dropped, len(s.beside))
	}
	if s.addWaiting(); len(s.beside) != 0 || s.some.Load() {
		t.Errorf("%d still wait", len(s.beside))
	}
	var none *storedDecisions
	none.add("line", time.Now())
	none.addBeside("line", time.Now())
	none.addWaiting()
	if dropped, size := none.stats(); dropped != 0 || size != 0 {
		t.Error("nothing is stored, and it has a size")
	}
}

// A pod that causes a kill each second does not displace what was decided in weeks. Its kills are stored all the same.
func TestDecisions_OOMKillsAreBounded(t *testing.T) {
	lines := decisionlog.NewLines(io.Discard)
	defer lines.Close()
	reports := newOOMReports(lines, metrics.New(metrics.Settings{LinesDropped: lines.Lost, OOMLimits: oomkill.LevelNames()}), func() bool { return false })
	s := &storedDecisions{}
	reports.decisions = s
	const seconds = 3600
	begun := time.Now()
	for n := range seconds {
		reports.reportLost(1, begun.Add(time.Duration(n)*time.Second))
	}
	kills := 0
	for _, w := range s.beside {
		kills += w.line.(*agent.OOMKill).Kills
	}
	if n := len(s.beside); n < 100 || n > 100+seconds/60 || kills < seconds-60 {
		t.Errorf("%d lines with %d kills are stored of %d kills", n, kills, seconds)
	}
}
