package decisionlog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"plimsoll.dev/plimsoll/internal/decisionlog"
)

// Virtual time stands still while lines are written, so that the wait of Close does not end before.
func TestLines_WrittenWholeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := decisionlog.NewLines(&out)
		l.JSON(map[string]string{"pod": "default/a<b"})
		if _, err := io.WriteString(l, "second\n"); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if got, want := out.String(), "{\"pod\":\"default/a<b\"}\nsecond\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// stuck is a stream that blocks until it is released.
type stuck struct {
	released chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.released
	return s.Buffer.Write(p)
}

func TestLines_DropOnBlockedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{released: make(chan struct{})}
		l := decisionlog.NewLines(out)
		const lines = 1000
		for range lines {
			l.JSON("x")
		}
		dropped := l.Dropped()
		if dropped == 0 {
			t.Fatal("no line was dropped on a blocked stream")
		}
		close(out.released)
		l.Close()
		got := strings.Count(out.String(), "\"x\"\n")
		if got+int(dropped) != lines {
			t.Errorf("%d lines written and %d dropped of %d", got, dropped, lines)
		}
		if lost := l.Lost(); lost != dropped || l.Dropped() != 0 {
			t.Errorf("%d lines lost since the start and %d not reported, want %d and none", lost, l.Dropped(), dropped)
		}
		if !strings.Contains(out.String(), "lines were dropped") {
			t.Error("the dropped lines were not reported")
		}
	})
}

func TestLines_ReportEncodingError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := decisionlog.NewLines(&out)
		l.JSON(func() {})
		l.Close()
		var line struct{ Error string }
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Error == "" {
			t.Errorf("%q: %v", out.String(), err)
		}
	})
}
