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

// own returns a pod that ends 20 s after the request, by itself unless it was deleted.
func own(answers ...Answer) *world {
	w := &world{answers: answers, ends: make(chan struct{})}
	time.AfterFunc(20*time.Second, func() { close(w.ends) })
	return w
}

// delete carries the request out; the watch shows it after a while.
func (w *world) delete(after time.Duration) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deleted = true
	})
}

// A pod that crashes while only a request exists is restarted: the remaining request would later
// evict it without need.
func TestAPodThatEndsByItselfIsNotEvicted(t *testing.T) {
	const refused = "refused: no"
	broken := errors.New("another directory")
	for about, tc := range map[string]struct {
		answers []Answer
		await   error
		want    []string
	}{
		"asked for":            {[]Answer{{}}, nil, []string{"asked", "withdrawn"}},
		"refused by a budget":  {[]Answer{{Retry: time.Minute, Why: "no"}}, nil, []string{"asked", refused, "withdrawn"}},
		"not to be waited for": {[]Answer{{}}, broken, []string{"asked", "withdrawn"}},
		"refused once more":    {[]Answer{{Retry: 15 * time.Second, Why: "no"}, {Retry: 6 * time.Second, Why: "no"}}, nil, []string{"asked", refused, "asked", refused, "withdrawn"}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := own(tc.answers...), time.Now()
				w.await = tc.await
				r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{})
				if !errors.Is(err, tc.await) || !r.Withdrawn || time.Since(begun) != 20*time.Second+finalAnswerTime {
					t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
				}
				expect(t, w, tc.want...)
			})
		})
	}
}

func TestWhatCanNotBeTakenBackIsSaidBesideTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := own(Answer{})
		w.await, w.withdraw = errors.New("another directory"), errors.New("connection refused")
		r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{})
		if !errors.Is(err, w.await) || !errors.Is(err, w.withdraw) || !r.Withdrawn {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// The node's watch of its pods lags behind.
func TestTheServersWordOfAnEvictionMayBeLate(t *testing.T) {
	for about, tc := range map[string]struct {
		word    time.Duration // since the request
		server  time.Duration
		answers []Answer
		want    []string
	}{
		"by the watch":            {21 * time.Second, 0, []Answer{{}}, []string{"asked", "announced"}},
		"by an answer on its way": {time.Hour, time.Second, []Answer{{Retry: 18500 * time.Millisecond, Why: "no"}, {Accepted: true}}, []string{"asked", "refused: no", "asked", "announced"}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := own(tc.answers...)
				w.server = tc.server
				w.delete(tc.word)
				cleared := make(chan struct{}) // by the memory of the pod
				time.AfterFunc(20500*time.Millisecond, func() { close(cleared) })
				r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Withdraw: cleared})
				if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
					t.Errorf("%+v, %v", r, err)
				}
				expect(t, w, tc.want...)
			})
		})
	}
}

// The next run withdraws what remains, or finds it carried out.
func TestARequestStandsWhenTheAgentStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := own(Answer{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := w.ladder().Graceful(ctx, fromAPI(), w, time.Minute, Changes{})
		if err == nil || r.Withdrawn {
			t.Errorf("%+v, %v", r, err)
		}
		expect(t, w, "asked")
	})
}

// No further request follows once the pod was deleted for another reason.
func TestAPodThatIsEndingIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cleared := own(Answer{Retry: 10 * time.Second, Why: "no"}), make(chan struct{})
		w.delete(5 * time.Second)
		time.AfterFunc(6*time.Second, func() { close(cleared) })
		r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Withdraw: cleared})
		if err != nil || r.Withdrawn || r.ExitTime != 20*time.Second {
			t.Errorf("%+v, %v", r, err)
		}
		expect(t, w, "asked", "refused: no", "announced")
	})
}

// A pod without processes may be evicted for its disk usage.
func TestAPodThatRunsNothingIsAskedFor(t *testing.T) {
	for about, tc := range map[string]struct {
		answer    Answer
		withdrawn bool
		want      []string
	}{
		"accepted":      {Answer{Accepted: true}, false, []string{"asked", "announced"}},
		"for others to": {Answer{}, true, []string{"asked", "withdrawn"}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{server: 10 * time.Millisecond, answers: []Answer{tc.answer}, ends: make(chan struct{})}
				close(w.ends)
				r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{})
				if err != nil || r.Withdrawn != tc.withdrawn {
					t.Errorf("%+v, %v", r, err)
				}
				expect(t, w, tc.want...)
			})
		})
	}
}

// An escalation does not wait for the final answer; the next pod may be needed.
func TestAHurryAfterThePodsOwnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begun, hurry := own(Answer{}), time.Now(), make(chan struct{})
		time.AfterFunc(20500*time.Millisecond, func() { close(hurry) })
		r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Escalate: hurry})
		if err != nil || !r.Withdrawn || time.Since(begun) != 20500*time.Millisecond {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
		expect(t, w, "asked", "withdrawn")
	})
}

// A pod that was to end immediately may have been killed before its end is seen here: the status is
// reported, whichever comes first.
func TestAnEndBesideAHurryIsAnEviction(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			w, hurry := own(Answer{Retry: time.Hour, Why: "no"}), make(chan struct{})
			w.empty = true
			time.AfterFunc(20*time.Second, func() { close(hurry) })
			l := w.ladder()
			l.Refused = func(*eviction.Eviction, string) { <-time.After(21 * time.Second) } // the loop is busy
			r, err := l.Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Escalate: hurry})
			if err != nil || r.Withdrawn || !r.Reported {
				t.Errorf("%+v, %v", r, err)
			}
			expect(t, w, "asked", "owed", "told", "ended in 0s", "due")
		})
	}
}

// A request in progress while the threshold clears does not follow its withdrawal; if it was
// carried out already, it counts.
func TestAWithdrawalWhileTheServerIsAsked(t *testing.T) {
	for about, tc := range map[string]struct {
		deaf bool
		want []string
	}{
		"given up": {false, []string{"withdrawn"}},
		"heeded":   {true, []string{"asked", "announced"}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, cleared := own(Answer{Accepted: true}), make(chan struct{})
				w.server, w.deaf = 3*time.Second, tc.deaf
				time.AfterFunc(time.Second, func() { close(cleared) })
				r, err := w.ladder().Graceful(t.Context(), fromAPI(), w, time.Minute, Changes{Withdraw: cleared})
				if err != nil || r.Withdrawn == tc.deaf {
					t.Errorf("%+v, %v", r, err)
				}
				synctest.Wait()
				expect(t, w, tc.want...)
			})
		})
	}
}

// The budget never allows, or the controller never acts: the pod is given up when its grace period
// and a few minutes have passed, regardless of the number of requests.
func TestGraceful_GivenUpAfterItsTime(t *testing.T) {
	for about, tc := range map[string]struct {
		answer Answer
		why    string
	}{
		"refused by a budget": {Answer{Retry: 5 * time.Second, Why: "no disruption is allowed"}, "no disruption is allowed"},
		"for others to":       {Answer{}, "is plimsoll controller running?"},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := &world{answers: []Answer{tc.answer}}, time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 7*24*time.Hour)
				defer cancel()
				r, err := w.ladder().Graceful(ctx, fromAPI(), w, time.Minute, Changes{})
				if took := time.Since(begun); !r.Withdrawn || !r.GivenUp || took != time.Minute+unansweredTime {
					t.Errorf("%+v, %v after %v", r, err, took)
				}
				if err == nil || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("error %v", err)
				}
				if got := w.happened(); got[len(got)-1] != "withdrawn" {
					t.Errorf("happened %q", got)
				}
			})
		})
	}
}

// An unresponsive server is no refusal: requests for other pods would fail too.
func TestGraceful_AServerThatIsAwayIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begun := &world{server: -1}, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if r, err := w.ladder().Graceful(ctx, fromAPI(), w, time.Minute, Changes{}); r.GivenUp || err == nil || time.Since(begun) != time.Hour {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
	})
}
