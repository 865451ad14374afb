package evict

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// harness fakes the pod and the API server, and records the calls in order.
type harness struct {
	mu     sync.Mutex
	events []string

	server         time.Duration // until the server answers; negative: it refuses the connection
	answers        []Answer      // to requests, the last one repeatedly
	ends           chan struct{} // closed when the pod has ended
	withdraw       error
	killFails      bool  // the kill fails
	remains        bool  // remains for the duration of the wait
	ended          error // why that wait ended
	empty          bool  // no process remains to be killed
	await          error
	ignoresContext bool // the server's answers ignore the context
	deleted        bool // the request was carried out
}

func (h *harness) note(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

func (h *harness) recorded() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

func (h *harness) Enqueue(Notice)  { h.note("enqueued") }
func (h *harness) Commit(Notice)   { h.note("committed") }
func (h *harness) Cancel(Notice)   { h.note("cancelled") }
func (h *harness) Announce(Notice) { h.note("announced") }

func (h *harness) Report(ctx context.Context, n Notice) error {
	if err := h.reach(ctx); err != nil {
		return err
	}
	h.note("reported")
	return nil
}

func (h *harness) reach(ctx context.Context) error {
	if h.server < 0 {
		return errors.New("connection refused")
	}
	done := ctx.Done()
	if h.ignoresContext {
		done = nil
	}
	select {
	case <-time.After(h.server):
		return nil
	case <-done:
		return ctx.Err()
	}
}

func (h *harness) Request(ctx context.Context, _ Notice, _ time.Duration) (Answer, error) {
	if err := h.reach(ctx); err != nil {
		return Answer{}, err
	}
	h.note("requested")
	answer := h.answers[0]
	h.answers = h.answers[min(1, len(h.answers)-1):]
	return answer, nil
}

func (h *harness) Withdraw(context.Context, Notice) error {
	h.note("withdrawn")
	return h.withdraw
}

func (h *harness) Ending(Notice) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deleted
}

func (h *harness) Containers() []string { return []string{"c1"} }

func (h *harness) Kill(ctx context.Context) (Ended, error) {
	if h.killFails || ctx.Err() != nil {
		return Ended{}, errors.New("no such cgroup")
	}
	if h.empty {
		return Ended{}, nil
	}
	h.note("killed")
	if h.remains {
		<-ctx.Done()
		h.ended = context.Cause(ctx)
	}
	return Ended{Signalled: 1, ProcessesRemain: h.remains}, nil
}

func (h *harness) End(_ context.Context, grace time.Duration, _ <-chan struct{}) (Ended, error) {
	h.note("ended in " + grace.String())
	if h.empty {
		return Ended{}, nil
	}
	return Ended{Signalled: 1}, nil
}

func (h *harness) Await(ctx context.Context) error {
	select {
	case <-h.ends:
		return h.await
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *harness) evictor() *Evictor {
	return &Evictor{Status: h, Soft: h, Refused: func(_ *eviction.Eviction, why string) { h.note("refused: " + why) }}
}

func fromAPI() *eviction.Eviction {
	return &eviction.Eviction{Pod: &signals.Pod{UID: "u", Namespace: "default", Name: "p", FromAPI: true}}
}

func expect(t *testing.T, h *harness, want ...string) {
	t.Helper()
	if got := h.recorded(); !slices.Equal(got, want) {
		t.Errorf("got calls %q\nwant      %q", got, want)
	}
}

func TestImmediate_ReportsBeforeKill(t *testing.T) {
	for _, tc := range []struct {
		name         string
		server       time.Duration
		patience     time.Duration
		manifest     bool
		wantDuration time.Duration
		reported     bool
		want         []string
	}{
		{"status before the kill", 20 * time.Millisecond, time.Second, false, 20 * time.Millisecond, true, []string{"enqueued", "reported", "killed", "committed"}},
		{"server without an answer", time.Hour, 300 * time.Millisecond, false, 300 * time.Millisecond, false, []string{"enqueued", "killed", "committed"}},
		{"connection refused", -1, time.Second, false, 0, false, []string{"enqueued", "killed", "committed"}},
		{"no time for the report", 0, 0, false, 0, false, []string{"enqueued", "killed", "committed"}},
		{"pod of a manifest", 0, time.Second, true, 0, false, []string{"killed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, e, begun := &harness{server: tc.server}, fromAPI(), time.Now()
				e.Pod.FromAPI = !tc.manifest
				reporting, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				r, err := h.evictor().Immediate(t.Context(), reporting, t.Context(), time.Minute, e, h)
				if err != nil || r.Reported != tc.reported || r.Pending != (!tc.reported && !tc.manifest) || r.Signalled != 1 {
					t.Errorf("got %+v, error %v", r, err)
				}
				if took := time.Since(begun); took != tc.wantDuration {
					t.Errorf("got a duration of %v, want %v", took, tc.wantDuration)
				}
				expect(t, h, tc.want...)
			})
		})
	}
}

func TestGraceful_WithdrawsRequestRefusedByBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &harness{answers: []Answer{{Retry: 10 * time.Second, Why: "the budget is exhausted"}}}
		withdraw := make(chan struct{})
		time.AfterFunc(25*time.Second, func() { close(withdraw) })
		r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Withdraw: withdraw})
		if err != nil || !r.Withdrawn {
			t.Errorf("got %+v, error %v", r, err)
		}
		const refused = "refused: the budget is exhausted"
		expect(t, h, "requested", refused, "requested", refused, "requested", refused, "withdrawn")
	})
}

func TestGraceful_KeepsAcceptedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &harness{answers: []Answer{{Accepted: true}}, ends: make(chan struct{})}
		withdraw := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(withdraw) })
		time.AfterFunc(20*time.Second, func() { close(h.ends) })
		r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Withdraw: withdraw})
		if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
			t.Errorf("got %+v, error %v", r, err)
		}
		expect(t, h, "requested", "announced")
	})
}

// The controller carries out a request. As the pod ends, its memory is freed, and the
// measurement may precede the server's answer. It still counts as an eviction.
func TestGraceful_CountsDeletionByController(t *testing.T) {
	for name, recovers := range map[string]time.Duration{"before the end": 19 * time.Second, "at the end": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &harness{answers: []Answer{{}}, ends: make(chan struct{})}
				withdraw := make(chan struct{})
				time.AfterFunc(10*time.Second, func() { h.mu.Lock(); h.deleted = true; h.mu.Unlock() })
				defer time.AfterFunc(recovers, func() { close(withdraw) }).Stop()
				time.AfterFunc(20*time.Second, func() { close(h.ends) })
				r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Withdraw: withdraw})
				if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
					t.Errorf("got %+v, error %v", r, err)
				}
				expect(t, h, "requested", "announced")
			})
		})
	}
}

func TestGraceful_EscalatesFromAnyWait(t *testing.T) {
	for name, tc := range map[string]struct {
		server  time.Duration
		answers []Answer
		want    []string
	}{
		"budget":              {0, []Answer{{Retry: time.Hour, Why: "no"}}, []string{"requested", "refused: no", "enqueued", "reported", "ended in 0s", "committed"}},
		"grace period":        {0, []Answer{{Accepted: true}}, []string{"requested", "announced", "enqueued", "reported", "ended in 0s", "committed"}},
		"controller":          {0, []Answer{{}}, []string{"requested", "enqueued", "reported", "ended in 0s", "committed"}},
		"unresponsive server": {time.Hour, nil, []string{"enqueued", "ended in 0s", "committed"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, begun := &harness{server: tc.server, answers: tc.answers}, time.Now()
				escalate := make(chan struct{})
				time.AfterFunc(5*time.Second, func() { close(escalate) })
				r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Hour, Changes{Escalate: escalate})
				if err != nil || r.Signalled != 1 || time.Since(begun) > 5*time.Second+escalatedPatience {
					t.Errorf("got %+v, error %v after %v", r, err, time.Since(begun))
				}
				expect(t, h, tc.want...)
			})
		})
	}
}

func TestGraceful_FailsIfPodOutlivesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := &harness{answers: []Answer{{Accepted: true}}}, time.Now()
		_, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{})
		if err == nil || time.Since(begun) != time.Minute+cleanupTime {
			t.Errorf("got error %v after %v", err, time.Since(begun))
		}
	})
}

func TestGraceful_RetriesUnreachableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &harness{server: -1, ends: make(chan struct{})}
		time.AfterFunc(12*time.Second, func() { close(h.ends) })
		if r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{}); err != nil || !r.Withdrawn {
			t.Errorf("got %+v, error %v", r, err) // the pod has ended by itself
		}
		const refused = "refused: connection refused"
		expect(t, h, refused, refused, refused, "withdrawn") // a request may have been received
	})
}

func TestGraceful_SendsSIGTERMToManifestPod(t *testing.T) {
	h, e := &harness{}, fromAPI()
	e.Pod.FromAPI = false
	if _, err := h.evictor().Graceful(t.Context(), e, h, time.Minute, Changes{}); err != nil {
		t.Error(err)
	}
	expect(t, h, "ended in 1m0s")
}

func TestImmediate_CancelsStatusIfKillFails(t *testing.T) {
	h := &harness{killFails: true}
	if r, err := h.evictor().Immediate(t.Context(), t.Context(), t.Context(), time.Minute, fromAPI(), h); err == nil {
		t.Errorf("got %+v, want an error", r)
	}
	expect(t, h, "enqueued", "reported", "cancelled")
}

// If the pod ends while the server is awaited, its status is reported, and no other pod is evicted
// in its place.
func TestImmediate_CountsPodThatEndsDuringReport(t *testing.T) {
	for _, tc := range []struct {
		server time.Duration
		want   []string
	}{
		{20 * time.Millisecond, []string{"enqueued", "reported", "committed"}},
		{time.Hour, []string{"enqueued", "committed"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &harness{server: tc.server, empty: true}
			reporting, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			r, err := h.evictor().Immediate(t.Context(), reporting, t.Context(), time.Minute, fromAPI(), h)
			if err != nil || r.Signalled != 0 || r.SignalTime != 0 || r.StatusTime == 0 {
				t.Errorf("got %+v, error %v", r, err)
			}
			expect(t, h, tc.want...)
		})
	}
}

// The server or a busy processor may use up the time for the kill.
func TestImmediate_KillsAfterDeadlineOnceEnqueued(t *testing.T) {
	for name, tc := range map[string]struct {
		enqueueDelay, server time.Duration
		want                 []string
	}{
		"slow report":             {0, 2 * time.Second, []string{"enqueued", "reported", "killed", "committed"}},
		"slow enqueue":            {2 * time.Second, 0, []string{"enqueued", "reported", "killed", "committed"}},
		"slow enqueue, no server": {2 * time.Second, -1, []string{"enqueued", "killed", "committed"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				h := &slow{harness: &harness{server: tc.server}, enqueueDelay: tc.enqueueDelay}
				if r, err := (&Evictor{Status: h}).Immediate(ctx, t.Context(), t.Context(), time.Minute, fromAPI(), h); err != nil || r.Signalled != 1 {
					t.Errorf("got %+v, error %v", r, err)
				}
				if left := time.Until(h.until); left != signalTime {
					t.Errorf("got %v for the kill, want %v", left, signalTime)
				}
				expect(t, h.harness, tc.want...)
			})
		})
	}
}

// slow is a Status with a slow Enqueue.
type slow struct {
	*harness
	enqueueDelay time.Duration
	until        time.Time // deadline of the kill
}

func (s *slow) Enqueue(n Notice) {
	<-time.After(s.enqueueDelay)
	s.harness.Enqueue(n)
}

func (s *slow) Kill(ctx context.Context) (Ended, error) {
	s.until, _ = ctx.Deadline()
	return s.harness.Kill(ctx)
}

// The agent receives SIGTERM during the report.
func TestImmediate_KillsReportedPodIfAgentStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		h := &stopping{harness: &harness{}, stop: stop}
		l := &Evictor{Status: h}
		if r, err := l.Immediate(ctx, ctx, t.Context(), time.Minute, fromAPI(), h); err != nil || r.Signalled != 1 {
			t.Errorf("got %+v, error %v", r, err)
		}
	})
}

// Memory begins to fall while the processes of a reported pod remain.
func TestImmediate_StopsWaitingWhenCutShort(t *testing.T) {
	for name, tc := range map[string]struct{ cut, want time.Duration }{
		"during the wait":    {time.Second, time.Second},
		"before the signals": {0, signalTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				waiting, giveUp := context.WithCancel(t.Context())
				begun := time.Now()
				time.AfterFunc(tc.cut, giveUp)
				h := &harness{remains: true}
				if r, err := (&Evictor{Status: h}).Immediate(ctx, t.Context(), waiting, time.Minute, fromAPI(), h); err != nil || !r.ProcessesRemain {
					t.Errorf("got %+v, error %v", r, err)
				}
				if took := time.Since(begun); took != tc.want {
					t.Errorf("got a wait of %v, want %v", took, tc.want)
				}
				if !errors.Is(h.ended, context.DeadlineExceeded) { // a cancelled kill would signal nothing if it begins late
					t.Errorf("the wait ended with %v, want a passed deadline", h.ended)
				}
			})
		})
	}
}

// The time for the kill does not depend on how early or late the server
// answers.
func TestImmediate_CountsWaitFromKill(t *testing.T) {
	for _, answer := range []time.Duration{0, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			h := &harness{remains: true, server: answer}
			begun := time.Now()
			r, err := (&Evictor{Status: h}).Immediate(t.Context(), t.Context(), t.Context(), 300*time.Millisecond, fromAPI(), h)
			if took := time.Since(begun); err != nil || !r.ProcessesRemain || took != answer+300*time.Millisecond {
				t.Errorf("got %+v, error %v after %v, want a wait of 300ms for the kill", r, err, took)
			}
		})
	}
}

// stopping ends the agent as soon as the server has the status.
type stopping struct {
	*harness
	stop func()
}

func (s *stopping) Report(ctx context.Context, n Notice) error {
	defer s.stop()
	return s.harness.Report(ctx, n)
}

func TestGraceful_WithdrawsUnansweredRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := &harness{answers: []Answer{{}}}, time.Now()
		r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{})
		if err == nil || !r.Withdrawn || !strings.Contains(err.Error(), "check that plimsoll controller runs") || time.Since(begun) != time.Minute+unansweredTime {
			t.Errorf("got error %v after %v", err, time.Since(begun))
		}
		expect(t, h, "requested", "withdrawn")
	})
}
