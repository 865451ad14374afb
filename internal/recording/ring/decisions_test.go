package ring

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// offerDecision offers the n-th decision.
func offerDecision(r *Ring, n int) {
	if e := r.Next(); e != nil {
		e.Decision, e.At = map[string]string{"threshold": fmt.Sprintf("memory.available<%d", n)}, time.Now()
		r.Commit(e.At, true)
	}
}

// lines returns the decisions of the segments.
func (m *memory) lines() (lines []string) {
	for _, s := range m.segments {
		r := recording.NewReader(s.data)
		for e := r.Next(); e != nil; e = r.Next() {
			if e.Decision != nil {
				lines = append(lines, string(e.Decision.Line))
			}
		}
	}
	return lines
}

// A ring of decisions alone has their lines as they are in the decision log, and a queue of its own size.
func TestRing_HasDecisionsAlone(t *testing.T) {
	m := disk(t)
	r := inBubble(t, m, func() Options {
		o := options()
		o.Queue, m.hang = 3, make(chan struct{})
		return o
	}, func(r *Ring) {
		for n := range 5 {
			offerDecision(r, n)
		}
		close(m.hang)
		synctest.Wait()
		offerDecision(r, 5)
	})
	want := []string{`{"threshold":"memory.available<0"}`, `{"threshold":"memory.available<1"}`, `{"threshold":"memory.available<2"}`, `{"threshold":"memory.available<5"}`}
	if got := m.lines(); !slices.Equal(got, want) || r.Dropped() != 2 {
		t.Errorf("%q and %d dropped, want %q and 2", got, r.Dropped(), want)
	}
}

// Agents that restart all the time and decide nothing cost no history.
func TestRing_WithoutDecisionCreatesNoSegment(t *testing.T) {
	m := disk(t)
	inBubble(t, m, options, func(r *Ring) { offerDecision(r, 1) })
	for range 2000 {
		inBubble(t, m, options, func(*Ring) {})
	}
	if got := m.lines(); len(m.segments) != 1 || len(got) != 1 {
		t.Errorf("%d segments with %q", len(m.segments), got)
	}
}
