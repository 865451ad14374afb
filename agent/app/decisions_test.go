package app

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/agent/recorder"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/oomkill"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// What the decision log has is stored on the node in the same bytes: decisions, and OOM kills of the kernel. The
// recording has the choice of a pod too.
func TestDecisions_AreThoseOfTheLog(t *testing.T) {
	h, places := podTree(t)
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nnodeName: node-7\ndecisionLogDir: " + filepath.Join(t.TempDir(), "decisions")))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{Options: Options{Version: "1.2.3"}, config: c, log: slog.New(slog.DiscardHandler), node: &node{hierarchy: h, places: places}}
	var log bytes.Buffer
	recordingDir := t.TempDir()
	synctest.Test(t, func(*testing.T) { // the waits at the end do not end while files are written
		lines := decisionlog.NewLines(&log)
		m := metrics.New(metrics.Settings{LinesDropped: lines.Lost, OOMLimits: oomkill.LevelNames()})
		a.decisions = a.openDecisions()
		now := time.Now()
		recorded := ring.Start(ring.Options{Dir: recordingDir, Size: ring.MinSize, Header: recording.Header{Node: "node-7", Started: now}})
		reports := newOOMReports(lines, m, func() bool { return false })
		reports.beside = &a.besides
		r := &reporter{lines: lines, metrics: m, decisions: a.decisions, besides: &a.besides, recorder: &flightRecorder{Recorder: recorder.New(recorded, now)}}
		a.reporter = r
		r.Report(&agent.Decision{Time: now, Decision: agent.Armed, Reason: "memory.available<100Mi & more", Choice: &decisionlog.Choice{Cause: "x"}})
		reports.reportLost(2, now)
		r.Report(&agent.Decision{Time: now, Decision: agent.Disarmed})
		reports.reportLost(3, now.Add(2*containerPace))
		a.close() // nothing of the last line has reached the loop
		recorded.Close()
		lines.Close()
	})

	stored, size := linesIn(t, c.DecisionLogDir)
	if stored != log.String() || strings.Count(stored, "\n") != 4 || !strings.Contains(stored, "memory.available<100Mi & more") || strings.Contains(stored, "choice") {
		t.Errorf("stored\n%sthe log has\n%s", stored, &log)
	}
	if got, _ := linesIn(t, recordingDir); strings.Replace(got, `,"choice":{"cause":"x"}`, "", 1) != stored || got == stored {
		t.Errorf("recorded\n%sstored\n%s", got, stored)
	}
	if dropped, bytes := a.recordingStats(); dropped != 0 || bytes < size {
		t.Errorf("%d dropped, %d bytes of %d", dropped, bytes, size)
	}
	if c.DecisionLogDir = ""; a.openDecisions() != nil {
		t.Error("decisions are stored without a directory")
	}
}

// linesIn returns the lines in the only segment of a directory, and its size.
func linesIn(t *testing.T, dir string) (lines string, size int64) {
	t.Helper()
	segments, err := ring.List(dir)
	if err != nil || len(segments) != 1 {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	data, err := segments[0].Read()
	if err != nil {
		t.Fatal(err)
	}
	reader := recording.NewReader(data)
	for e := reader.Next(); e != nil; e = reader.Next() {
		if e.Decision != nil {
			lines += string(e.Decision.Line) + "\n"
		} else if e.Header == nil || e.Header.Node != "node-7" || e.Header.Config != nil {
			t.Errorf("%+v", e)
		}
	}
	return lines, int64(len(data))
}

// Lines of other goroutines wait for the loop, at most so many. The loop does not wait for a goroutine that adds one.
func TestBesideLines_LoopWaitsForNoGoroutine(t *testing.T) {
	b := &besideLines{}
	for n := range maxBeside + 3 {
		b.add(n, time.Now())
	}
	b.mu.Lock() // a goroutine that lost its processor
	if n := len(b.take()); n != 0 {
		t.Errorf("took %d lines from under a goroutine", n)
	}
	b.mu.Unlock()
	if lost := b.lost.Load(); lost != 3 || len(b.lines) != maxBeside {
		t.Errorf("%d lost, %d wait", lost, len(b.lines))
	}
	if n := len(b.take()); n != maxBeside || len(b.lines) != 0 || b.some.Load() {
		t.Errorf("took %d, %d still wait", n, len(b.lines))
	}
	var none *storedDecisions
	var noLines *besideLines
	none.add("line", time.Now())
	noLines.add("line", time.Now())
	if dropped, size := none.stats(); dropped != 0 || size != 0 || noLines.take() != nil {
		t.Error("nothing is stored, and it has a size")
	}
}

// A pod that causes a kill each second does not displace what was decided in weeks. Its kills are stored all the same.
func TestDecisions_OOMKillsAreBounded(t *testing.T) {
	lines := decisionlog.NewLines(io.Discard)
	defer lines.Close()
	reports := newOOMReports(lines, metrics.New(metrics.Settings{LinesDropped: lines.Lost, OOMLimits: oomkill.LevelNames()}), func() bool { return false })
	reports.beside = &besideLines{}
	const seconds = 3600
	begun := time.Now()
	for n := range seconds {
		reports.reportLost(1, begun.Add(time.Duration(n)*time.Second))
	}
	kills := 0
	for _, w := range reports.beside.lines {
		kills += w.line.(*agent.OOMKill).Kills
	}
	if n := len(reports.beside.lines); n < 100 || n > 100+seconds/60 || kills < seconds-60 {
		t.Errorf("%d lines with %d kills are stored of %d kills", n, kills, seconds)
	}
}
