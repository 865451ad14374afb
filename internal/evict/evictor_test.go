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

// world records the events of its pod, in order.
type world struct {
	mu     sync.Mutex
	events []string

	server   time.Duration // until it answers; negative: it refuses the connection
	answers  []Answer      // to requests, the last one repeatedly
	ends     chan struct{} // closed when the pod has ended
	withdraw error
	refuses  bool // the kill fails
	lingers  bool // remains for the duration of the wait
	empty    bool // no process remains to be killed
	await    error
	deaf     bool // the server's answers ignore the context
	deleted  bool // the request was carried out
}

func (w *world) note(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
}

func (w *world) happened() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func (w *world) Enqueue(Notice)  { w.note("owed") }
func (w *world) Commit(Notice)   { w.note("due") }
func (w *world) Cancel(Notice)   { w.note("cancelled") }
func (w *world) Announce(Notice) { w.note("announced") }

func (w *world) Report(ctx context.Context, n Notice) error {
	if err := w.reach(ctx); err != nil {
		return err
	}
	w.note("told")
	return nil
}

func (w *world) reach(ctx context.Context) error {
	if w.server < 0 {
		return errors.New("connection refused")
	}
	done := ctx.Done()
	if w.deaf {
		done = nil
	}
	select {
	case <-time.After(w.server):
		return nil
	case <-done:
		return ctx.Err()
	}
}

func (w *world) Request(ctx context.Context, _ Notice, _ time.Duration) (Answer, error) {
	if err := w.reach(ctx); err != nil {
		return Answer{}, err
	}
	w.note("asked")
	answer := w.answers[0]
	w.answers = w.answers[min(1, len(w.answers)-1):]
	return answer, nil
}

func (w *world) Withdraw(context.Context, Notice) error {
	w.note("withdrawn")
	return w.withdraw
}

func (w *world) Ending(Notice) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted
}

func (w *world) Containers() []string { return []string{"c1"} }

func (w *world) Kill(ctx context.Context) (Ended, error) {
	if w.refuses || ctx.Err() != nil {
		return Ended{}, errors.New("no such cgroup")
	}
	if w.empty {
		return Ended{}, nil
	}
	w.note("killed")
	if w.lingers {
		<-ctx.Done()
	}
	return Ended{Signalled: 1, ProcessesRemain: w.lingers}, nil
}

func (w *world) End(_ context.Context, grace time.Duration, _ <-chan struct{}) (Ended, error) {
	w.note("ended in " + grace.String())
	if w.empty {
		return Ended{}, nil
	}
	return Ended{Signalled: 1}, nil
}

func (w *world) Await(ctx context.Context) error {
	select {
	case <-w.ends:
		return w.await
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) ladder() *Evictor {
	return &Evictor{Status: w, Soft: w, Refused: func(_ *eviction.Eviction, why string) { w.note("refused: " + why) }}
}

func fromAPI() *eviction.Eviction {
	return &eviction.Eviction{Pod: &signals.Pod{UID: "u", Namespace: "default", Name: "p", FromAPI: true}}
}

func expect(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := w.happened(); !slices.Equal(got, want) {
		t.Errorf("happened %q\nwant     %q", got, want)
	}
}

func TestImmediate(t *testing.T) {
	for _, tc := range []struct {
		about    string
		server   time.Duration
		patience time.Duration
		manifest bool
		takes    time.Duration
		told     bool
		want     []string
	}{
		{"the status comes before the kill", 20 * time.Millisecond, time.Second, false, 20 * time.Millisecond, true, []string{"owed", "told", "killed", "due"}},
		{"a server that does not answer costs what memory leaves", time.Hour, 300 * time.Millisecond, false, 300 * time.Millisecond, false, []string{"owed", "killed", "due"}},
		{"a server that is gone costs nothing", -1, time.Second, false, 0, false, []string{"owed", "killed", "due"}},
		{"no time at all", 0, 0, false, 0, false, []string{"owed", "killed", "due"}},
		{"a manifest is nobody's business", 0, time.Second, true, 0, false, []string{"killed"}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e, begun := &world{server: tc.server}, fromAPI(), time.Now()
				e.Pod.FromAPI = !tc.manifest
				telling, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				r, err := w.ladder().Immediate(t.Context(), telling, t.Context(), time.Minute, e, w)
				if err != nil || r.Reported != tc.told || r.Pending != (!tc.told && !tc.manifest) || r.Signalled != 1 {
					t.Errorf("%+v, %v", r, err)
				}
				if took := time.Since(begun); took != tc.takes {
					t.Errorf("took %v, want %v", took, tc.takes)
				}
				expect(t, w, tc.want...)
			})
		})
	}
}

func TestAWithdrawalIsHeardWhileABudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{answers: []Answer{{Retry: 10 * time.Second, Why: "the budget is exhausted"}}}
		withdraw := make(chan struct{})
		time.AfterFunc(25*time.Second, func() { close(withdraw) })
		r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Withdraw: withdraw})
		if err != nil || !r.Withdrawn {
			t.Errorf("%+v, %v", r, err)
		}
		const refused = "refused: the budget is exhausted"
		expect(t, w, "asked", refused, "asked", refused, "asked", refused, "withdrawn")
	})
}

func TestAnAcceptedRequestIsNotWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{answers: []Answer{{Accepted: true}}, ends: make(chan struct{})}
		withdraw := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(withdraw) })
		time.AfterFunc(20*time.Second, func() { close(w.ends) })
		r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Withdraw: withdraw})
		if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
			t.Errorf("%+v, %v", r, err)
		}
		expect(t, w, "asked", "announced")
	})
}

// A request is carried out by the controller. As the pod ends its memory returns, and the
// measurement may precede the server's answer: it is an eviction nevertheless.
func TestARequestThatSomebodyCarriesOutIsAnEviction(t *testing.T) {
	for name, recovers := range map[string]time.Duration{"before its end": 19 * time.Second, "with its end": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{answers: []Answer{{}}, ends: make(chan struct{})}
				withdraw := make(chan struct{})
				time.AfterFunc(10*time.Second, func() { w.mu.Lock(); w.deleted = true; w.mu.Unlock() })
				defer time.AfterFunc(recovers, func() { close(withdraw) }).Stop()
				time.AfterFunc(20*time.Second, func() { close(w.ends) })
				r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Withdraw: withdraw})
				if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
					t.Errorf("%+v, %v", r, err)
				}
				expect(t, w, "asked", "announced")
			})
		})
	}
}

func TestHurryEndsTheWaitForWhatever(t *testing.T) {
	for about, tc := range map[string]struct {
		server  time.Duration
		answers []Answer
		want    []string
	}{
		"a budget":                     {0, []Answer{{Retry: time.Hour, Why: "no"}}, []string{"asked", "refused: no", "owed", "told", "ended in 0s", "due"}},
		"its grace period":             {0, []Answer{{Accepted: true}}, []string{"asked", "announced", "owed", "told", "ended in 0s", "due"}},
		"the controller":               {0, []Answer{{}}, []string{"asked", "owed", "told", "ended in 0s", "due"}},
		"a server that answers nobody": {time.Hour, nil, []string{"owed", "ended in 0s", "due"}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := &world{server: tc.server, answers: tc.answers}, time.Now()
				hurry := make(chan struct{})
				time.AfterFunc(5*time.Second, func() { close(hurry) })
				r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Hour, Changes{Escalate: hurry})
				if err != nil || r.Signalled != 1 || time.Since(begun) > 5*time.Second+escalatedPatience {
					t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
				}
				expect(t, w, tc.want...)
			})
		})
	}
}

func TestAPodThatDoesNotEndIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begun := &world{answers: []Answer{{Accepted: true}}}, time.Now()
		_, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{})
		if err == nil || time.Since(begun) != time.Minute+cleanupTime {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestAnUnreachableServerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{server: -1, ends: make(chan struct{})}
		time.AfterFunc(12*time.Second, func() { close(w.ends) })
		if r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{}); err != nil || !r.Withdrawn {
			t.Errorf("%+v, %v", r, err) // it has ended by itself
		}
		const refused = "refused: connection refused"
		expect(t, w, refused, refused, refused, "withdrawn") // a request may have arrived nevertheless
	})
}

func TestAManifestsPodGetsSIGTERM(t *testing.T) {
	w, e := &world{}, fromAPI()
	e.Pod.FromAPI = false
	if _, err := w.ladder().Graceful(t.Context(), e, w, time.Minute, Changes{}); err != nil {
		t.Error(err)
	}
	expect(t, w, "ended in 1m0s")
}

func TestAPodThatCanNotBeKilledOwesNothing(t *testing.T) {
	w := &world{refuses: true}
	if r, err := w.ladder().Immediate(t.Context(), t.Context(), t.Context(), time.Minute, fromAPI(), w); err == nil {
		t.Errorf("%+v", r)
	}
	expect(t, w, "owed", "told", "cancelled")
}

// If the pod ends while the server is awaited, its status is reported, and no other pod is evicted
// in its place.
func TestAPodThatEndsWhileTheServerIsToldIsEvicted(t *testing.T) {
	for _, tc := range []struct {
		server time.Duration
		want   []string
	}{
		{20 * time.Millisecond, []string{"owed", "told", "due"}},
		{time.Hour, []string{"owed", "due"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{server: tc.server, empty: true}
			telling, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			r, err := w.ladder().Immediate(t.Context(), telling, t.Context(), time.Minute, fromAPI(), w)
			if err != nil || r.Signalled != 0 || r.SignalTime != 0 || r.StatusTime == 0 {
				t.Errorf("%+v, %v", r, err)
			}
			expect(t, w, tc.want...)
		})
	}
}

// The time for the kill may be used up by the server, or by a busy processor.
func TestAPodThatWasToldOrOwedIsKilledHoweverLate(t *testing.T) {
	for about, tc := range map[string]struct {
		owing, server time.Duration
		want          []string
	}{
		"to the telling": {0, 2 * time.Second, []string{"owed", "told", "killed", "due"}},
		"to the owing":   {2 * time.Second, 0, []string{"owed", "told", "killed", "due"}},
		"for nothing":    {2 * time.Second, -1, []string{"owed", "killed", "due"}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				w := &slow{world: &world{server: tc.server}, owing: tc.owing}
				if r, err := (&Evictor{Status: w}).Immediate(ctx, t.Context(), t.Context(), time.Minute, fromAPI(), w); err != nil || r.Signalled != 1 {
					t.Errorf("%+v, %v", r, err)
				}
				if left := time.Until(w.until); left != signalTime {
					t.Errorf("%v for the kill, want %v", left, signalTime)
				}
				expect(t, w.world, tc.want...)
			})
		})
	}
}

// slow is a Status with a slow Enqueue.
type slow struct {
	*world
	owing time.Duration
	until time.Time // deadline of the kill
}

func (s *slow) Enqueue(n Notice) {
	<-time.After(s.owing)
	s.world.Enqueue(n)
}

func (s *slow) Kill(ctx context.Context) (Ended, error) {
	s.until, _ = ctx.Deadline()
	return s.world.Kill(ctx)
}

// The agent receives SIGTERM during the report.
func TestAPodThatWasToldIsKilledThoughTheAgentStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		w := &stopping{world: &world{}, stop: stop}
		l := &Evictor{Status: w}
		if r, err := l.Immediate(ctx, ctx, t.Context(), time.Minute, fromAPI(), w); err != nil || r.Signalled != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Memory begins to fall while the processes of a reported pod remain.
func TestWhoLingersIsNotWaitedForWhereTheTimeIsCutShort(t *testing.T) {
	for about, tc := range map[string]struct{ cut, want time.Duration }{
		"later":                {time.Second, time.Second},
		"with signals to send": {0, signalTime},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				waiting, giveUp := context.WithCancel(t.Context())
				begun := time.Now()
				time.AfterFunc(tc.cut, giveUp)
				w := &world{lingers: true}
				if r, err := (&Evictor{Status: w}).Immediate(ctx, t.Context(), waiting, time.Minute, fromAPI(), w); err != nil || !r.ProcessesRemain {
					t.Errorf("%+v, %v", r, err)
				}
				if took := time.Since(begun); took != tc.want {
					t.Errorf("waited for %v, want %v", took, tc.want)
				}
			})
		})
	}
}

// The time for the kill is not longer for a server that answers early, nor shorter for one that
// answers late.
func TestImmediate_WaitsForTheKillOnceTheServerHasAnswered(t *testing.T) {
	for _, answer := range []time.Duration{0, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{lingers: true, server: answer}
			begun := time.Now()
			r, err := (&Evictor{Status: w}).Immediate(t.Context(), t.Context(), t.Context(), 300*time.Millisecond, fromAPI(), w)
			if took := time.Since(begun); err != nil || !r.ProcessesRemain || took != answer+300*time.Millisecond {
				t.Errorf("%+v, %v after %v: want the kill waited for for 300ms", r, err, took)
			}
		})
	}
}

// stopping ends the agent as soon as the server has the status.
type stopping struct {
	*world
	stop func()
}

func (s *stopping) Report(ctx context.Context, n Notice) error {
	defer s.stop()
	return s.world.Report(ctx, n)
}

func TestARequestThatNobodyActsOnIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begun := &world{answers: []Answer{{}}}, time.Now()
		r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{})
		if err == nil || !r.Withdrawn || !strings.Contains(err.Error(), "is plimsoll controller running?") || time.Since(begun) != time.Minute+unansweredTime {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		expect(t, w, "asked", "withdrawn")
	})
}
