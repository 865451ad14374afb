package evict

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

// selfEnding returns a harness with a pod that ends 20 s after the request, by itself unless it was
// deleted.
func selfEnding(answers ...Answer) *harness {
	h := &harness{answers: answers, ends: make(chan struct{})}
	time.AfterFunc(20*time.Second, func() { close(h.ends) })
	return h
}

// delete carries out the request. The watch shows it after a while.
func (h *harness) delete(after time.Duration) {
	time.AfterFunc(after, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.deleted = true
	})
}

// A pod that crashes while only a request exists is restarted: the remaining request would later
// evict it without need.
func TestGraceful_WithdrawsIfPodEndsByItself(t *testing.T) {
	const refused = "refused: no"
	broken := errors.New("another directory")
	for name, tc := range map[string]struct {
		answers []Answer
		await   error
		want    []string
	}{
		"requested":           {[]Answer{{}}, nil, []string{"requested", "withdrawn"}},
		"refused by a budget": {[]Answer{{Retry: time.Minute, Why: "no"}}, nil, []string{"requested", refused, "withdrawn"}},
		"Await failed":        {[]Answer{{}}, broken, []string{"requested", "withdrawn"}},
		"refused twice":       {[]Answer{{Retry: 15 * time.Second, Why: "no"}, {Retry: 6 * time.Second, Why: "no"}}, nil, []string{"requested", refused, "requested", refused, "withdrawn"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, begun := selfEnding(tc.answers...), time.Now()
				h.await = tc.await
				r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{})
				if !errors.Is(err, tc.await) || !r.Withdrawn || time.Since(begun) != 20*time.Second+finalAnswerTime {
					t.Errorf("got %+v, error %v after %v", r, err, time.Since(begun))
				}
				expect(t, h, tc.want...)
			})
		})
	}
}

func TestGraceful_JoinsErrorOfFailedWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := selfEnding(Answer{})
		h.await, h.withdraw = errors.New("another directory"), errors.New("connection refused")
		r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{})
		if !errors.Is(err, h.await) || !errors.Is(err, h.withdraw) || !r.Withdrawn {
			t.Errorf("got %+v, error %v", r, err)
		}
	})
}

// The node's watch of its pods lags behind the server.
func TestGraceful_AcceptsLateRecordOfDeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		visibleAfter time.Duration // of the deletion, since the request
		server       time.Duration
		answers      []Answer
		want         []string
	}{
		"watch":              {21 * time.Second, 0, []Answer{{}}, []string{"requested", "announced"}},
		"answer in progress": {time.Hour, time.Second, []Answer{{Retry: 18500 * time.Millisecond, Why: "no"}, {Accepted: true}}, []string{"requested", "refused: no", "requested", "announced"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := selfEnding(tc.answers...)
				h.server = tc.server
				h.delete(tc.visibleAfter)
				cleared := make(chan struct{}) // the pod's memory is freed
				time.AfterFunc(20500*time.Millisecond, func() { close(cleared) })
				r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Withdraw: cleared})
				if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
					t.Errorf("got %+v, error %v", r, err)
				}
				expect(t, h, tc.want...)
			})
		})
	}
}

// The next run withdraws the request, or finds it carried out.
func TestGraceful_KeepsRequestIfAgentStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := selfEnding(Answer{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := h.evictor().Graceful(ctx, fromAPI(), h, time.Minute, Changes{})
		if err == nil || r.Withdrawn {
			t.Errorf("got %+v, error %v", r, err)
		}
		expect(t, h, "requested")
	})
}

// No further request follows once the pod was deleted for another reason.
func TestGraceful_SendsNoRequestForEndingPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cleared := selfEnding(Answer{Retry: 10 * time.Second, Why: "no"}), make(chan struct{})
		h.delete(5 * time.Second)
		time.AfterFunc(6*time.Second, func() { close(cleared) })
		r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Withdraw: cleared})
		if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
			t.Errorf("got %+v, error %v", r, err)
		}
		expect(t, h, "requested", "refused: no", "announced")
	})
}

// A pod without processes may be evicted for its disk usage.
func TestGraceful_RequestsPodWithoutProcesses(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    Answer
		withdrawn bool
		want      []string
	}{
		"accepted":                  {Answer{Accepted: true}, false, []string{"requested", "announced"}},
		"stored for the controller": {Answer{}, true, []string{"requested", "withdrawn"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &harness{server: 10 * time.Millisecond, answers: []Answer{tc.answer}, ends: make(chan struct{})}
				close(h.ends)
				r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{})
				if err != nil || r.Withdrawn != tc.withdrawn {
					t.Errorf("got %+v, error %v", r, err)
				}
				expect(t, h, tc.want...)
			})
		})
	}
}

// An escalation does not wait for the final answer; the next pod may be needed.
func TestGraceful_EscalationEndsWaitForFinalAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun, escalate := selfEnding(Answer{}), time.Now(), make(chan struct{})
		time.AfterFunc(20500*time.Millisecond, func() { close(escalate) })
		r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Escalate: escalate})
		if err != nil || !r.Withdrawn || time.Since(begun) != 20500*time.Millisecond {
			t.Errorf("got %+v, error %v after %v", r, err, time.Since(begun))
		}
		expect(t, h, "requested", "withdrawn")
	})
}

// An immediate end may have killed the pod before its end is seen here. The status is
// reported in either order.
func TestGraceful_ReportsPodThatEndsDuringEscalation(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			h, escalate := selfEnding(Answer{Retry: time.Hour, Why: "no"}), make(chan struct{})
			h.empty = true
			time.AfterFunc(20*time.Second, func() { close(escalate) })
			l := h.evictor()
			l.Refused = func(*eviction.Eviction, string) { <-time.After(21 * time.Second) } // the loop is busy
			r, err := l.Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Escalate: escalate})
			if err != nil || r.Withdrawn || !r.Reported {
				t.Errorf("got %+v, error %v", r, err)
			}
			expect(t, h, "requested", "enqueued", "reported", "ended in 0s", "committed")
		})
	}
}

// A request in progress when the threshold clears does not follow its withdrawal. If it was
// carried out already, it counts.
func TestGraceful_WithdrawsDuringRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		ignoresContext bool
		want           []string
	}{
		"cancelled":   {false, []string{"withdrawn"}},
		"carried out": {true, []string{"requested", "announced"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, cleared := selfEnding(Answer{Accepted: true}), make(chan struct{})
				h.server, h.ignoresContext = 3*time.Second, tc.ignoresContext
				time.AfterFunc(time.Second, func() { close(cleared) })
				r, err := h.evictor().Graceful(t.Context(), fromAPI(), h, time.Minute, Changes{Withdraw: cleared})
				if err != nil || r.Withdrawn == tc.ignoresContext {
					t.Errorf("got %+v, error %v", r, err)
				}
				synctest.Wait()
				expect(t, h, tc.want...)
			})
		})
	}
}

// If the budget never allows it, or the controller never acts, the pod is given up when its grace
// period and a few minutes have passed, regardless of the number of requests.
func TestGraceful_GivesUpAfterUnansweredTime(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []Answer
		why     string
		after   time.Duration // of the answer that counts
	}{
		"refused by a budget":       {[]Answer{{Retry: 5 * time.Second, Why: "no disruption is allowed"}}, "no disruption is allowed", 0},
		"stored for the controller": {[]Answer{{}}, "check that plimsoll controller runs", 0},
		"refused, then stored":      {[]Answer{{Retry: 5 * time.Second, Why: "too large"}, {}}, "check that plimsoll controller runs", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, begun := &harness{answers: tc.answers}, time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 7*24*time.Hour)
				defer cancel()
				r, err := h.evictor().Graceful(ctx, fromAPI(), h, time.Minute, Changes{})
				if took := time.Since(begun); !r.Withdrawn || !r.GivenUp || took != tc.after+time.Minute+unansweredTime {
					t.Errorf("got %+v, error %v after %v", r, err, took)
				}
				if err == nil || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("got error %v, want %q", err, tc.why)
				}
				if got := h.recorded(); got[len(got)-1] != "withdrawn" {
					t.Errorf("got calls %q, want withdrawn at the end", got)
				}
			})
		})
	}
}

// An unresponsive server is no refusal: requests for other pods would fail too.
func TestGraceful_KeepsRetryingUnreachableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := &harness{server: -1}, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if r, err := h.evictor().Graceful(ctx, fromAPI(), h, time.Minute, Changes{}); r.GivenUp || err == nil || time.Since(begun) != time.Hour {
			t.Errorf("got %+v, error %v after %v", r, err, time.Since(begun))
		}
	})
}
