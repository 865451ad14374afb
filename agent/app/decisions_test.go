package app

import (
	"bytes"
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
	a.closers[0]()
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
	if stored != log.String() || strings.Count(stored, "\n") != 3 || !strings.Contains(stored, "memory.available<100Mi & more") || strings.Contains(stored, "choice") {
		t.Errorf("stored\n%sthe log has\n%s", stored, &log)
	}
	if dropped, size := a.recordingStats(); dropped != 0 || size < int64(len(data)) {
		t.Errorf("%d dropped, %d bytes of %d", dropped, size, len(data))
	}
	if c.DecisionLogDir = ""; a.openDecisions() != nil {
		t.Error("decisions are stored without a directory")
	}
	(*storedDecisions)(nil).add("line", time.Now())
}
