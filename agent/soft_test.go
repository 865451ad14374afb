package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// The pod is escalated at 70 s, given up at 72 s, and ends at 75 s.
func TestSoftEviction_ReportsLateExit(t *testing.T) {
	w := live(t, 95*time.Second, false, []eviction.Threshold{hard(), soft()}, func(w *env) {
		w.ending, w.escalatedEnd = time.Hour, 5*time.Second
		w.add("slow", 800*mib).FromAPI = true
		other := w.add("other", 10*mib)
		other.rate, other.since, other.until, other.then = 60*mib, time.Now().Add(68*time.Second), time.Now().Add(70*time.Second+time.Millisecond), 10*mib
	})
	want := []Verb{SoftEvicting, Escalated, ReclaimDone, Failed, SoftEnded}
	if got := w.verbs(); !slices.Equal(got, want) || len(w.pods) != 1 {
		t.Fatalf("reported %v, want %v; %d pods remain", got, want, len(w.pods))
	}
	if why := w.failures(); len(why) != 1 || !strings.Contains(why[0], "it has not exited") {
		t.Errorf("failed: %q", why)
	}
}

// unanswered makes soft evictions of a pod requests to the API that remain without effect.
func unanswered(p *envPod) { unansweredFor(p, 6*time.Minute) }

func unansweredFor(p *envPod, d time.Duration) {
	p.FromAPI, p.withdrawable = true, true
	p.asked = func(ctx context.Context, change Changes) (EvictionResult, error) {
		select {
		case <-time.After(d):
			return EvictionResult{Withdrawn: true}, errors.New("not evicted")
		case <-change.Withdraw:
			return EvictionResult{Withdrawn: true}, nil
		case <-ctx.Done():
		}
		return EvictionResult{}, ctx.Err()
	}
}

// The controller that executes soft evictions is absent. Then memory runs short: the hog, which
// still runs, is evicted, and the limiter's quota is unused.
func TestSoftEviction_UnansweredPodCanBeKilled(t *testing.T) {
	p := limiter.Policy{PerHour: 1, OwnerBackoff: 10 * time.Minute}
	w := limitedRun(t, 24*time.Minute, p, []eviction.Threshold{hard(), soft()}, func(w *env) {
		hog := w.add("hog", 800*mib)
		unanswered(hog)
		hog.Owner = "o"
		hog.rate, hog.since, hog.until, hog.then = -5*mib, time.Now().Add(22*time.Minute), time.Now().Add(23*time.Minute), 950*mib
		small := w.add("small", 10*mib)
		small.MemoryRequest = signals.Quantity{Value: 20 * mib}
		unanswered(small)
	})
	want := []string{"default/hog", "default/hog", "default/hog", "default/small", "default/hog"}
	if got := w.evicted(); !slices.Equal(got, want) || w.count(Evicted) != 1 || w.count(Withdrawn) != 4 {
		t.Errorf("evicted %v, want %v; reported %v", got, want, w.verbs())
	}
	for _, why := range w.failures() {
		if strings.Contains(why, "killed") {
			t.Errorf("a failed kill was reported: %s", why)
		}
	}
}

// Attempts that fail more slowly than killsForget are counted, too.
func TestTries_ExhaustedAfterSlowFailures(t *testing.T) {
	k, p, at := tries{}, &signals.Pod{UID: "p"}, time.Unix(0, 0)
	for range maxKills {
		if k.exhausted(p, at) {
			t.Fatalf("exhausted after %d attempts", k["p"].n)
		}
		at = at.Add(2 * killsForget)
		k.count(p, at)
	}
	if !k.exhausted(p, at) || k.exhausted(p, at.Add(killsForget)) || len(k) != 0 {
		t.Errorf("remaining: %v", k)
	}
}

// Withdrawn soft evictions do not change the count of kills.
func TestSoftEviction_WithdrawalDoesNotResetKills(t *testing.T) {
	pod := &signals.Pod{UID: "p"}
	a := New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &env{}})
	a.kills.count(pod, time.Now())
	a.soft = &softRun{eviction: inflight.New(&eviction.Eviction{Pod: pod}, time.Now()), recalled: true}
	a.applySoftResult(softResult{result: EvictionResult{Withdrawn: true}})
	if got := a.kills["p"].n; got != 1 {
		t.Errorf("%d kills counted", got)
	}
	a.soft = &softRun{eviction: inflight.New(&eviction.Eviction{Pod: pod}, time.Now()), recalled: true}
	a.applySoftResult(softResult{err: errRefused})
	if got := a.kills["p"].n; got != 2 || len(a.unanswered) != 0 {
		t.Errorf("%d kills counted, %d unanswered requests", got, len(a.unanswered))
	}
}

// The agent withdrew it because the threshold was no longer met.
func TestSoftEviction_RecalledIsNotUnanswered(t *testing.T) {
	pod := &signals.Pod{UID: "p", FromAPI: true}
	a := New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &env{}})
	for _, recalled := range []bool{true, false} {
		a.soft = &softRun{eviction: inflight.New(&eviction.Eviction{Pod: pod}, time.Now()), withdraw: make(chan struct{})}
		if recalled {
			a.soft.recall()
		}
		a.applySoftResult(softResult{result: EvictionResult{Withdrawn: true}, err: errRefused})
		if counted := a.unanswered["p"].n == 1; counted == recalled {
			t.Errorf("recalled %v: counted as unanswered %v", recalled, counted)
		}
	}
}

// Escalated at 70 s, given up at 72 s. The next soft eviction may begin 30 s later.
func TestSoftEviction_NextAfterPodThatNeverExits(t *testing.T) {
	var begun time.Time
	w := live(t, 125*time.Second, false, []eviction.Threshold{hard(), soft()}, func(w *env) {
		begun = time.Now()
		stuck := w.add("stuck", 800*mib)
		stuck.FromAPI, stuck.asked = true, func(ctx context.Context, _ Changes) (EvictionResult, error) {
			<-ctx.Done()
			return EvictionResult{Processes: 1, ProcessesRemain: true}, nil
		}
		other := w.add("other", 10*mib)
		other.rate, other.since, other.until, other.then = 60*mib, time.Now().Add(68*time.Second), time.Now().Add(70*time.Second+time.Millisecond), 10*mib
	})
	var asked []time.Duration
	for _, d := range w.reported {
		if d.Decision == SoftEvicting {
			asked = append(asked, d.Time.Sub(begun))
		}
	}
	if len(asked) != 2 || asked[1] < 102*time.Second || asked[1] > 103*time.Second {
		t.Errorf("requested at %v, want 60 s and 102 s; reported %v", asked, w.verbs())
	}
}

func TestSoftEviction_AbandonedCountsAsKill(t *testing.T) {
	w := &env{}
	a := New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: w})
	a.soft = &softRun{eviction: inflight.New(&eviction.Eviction{Pod: &signals.Pod{UID: "stuck"}}, time.Now())}
	next := w.add("next", mib)
	a.evictSoft(t.Context(), inflight.New(&eviction.Eviction{Pod: &next.Pod}, time.Now()), &envVictim{w, next.UID, next})
	a.applySoftResult(<-a.softResults())
	if a.kills["stuck"].n != 1 || a.kills[next.UID].n != 1 || a.soft != nil {
		t.Errorf("%+v", a.kills)
	}
}

// A pod is evicted for its own limit while its soft eviction is in flight. The two count as one
// eviction, however the soft one ends.
func TestSoftEviction_CountsOnceWithEvictionForLimit(t *testing.T) {
	for about, asked := range map[string]func(context.Context, Changes) (EvictionResult, error){
		"withdrawn": func(_ context.Context, change Changes) (EvictionResult, error) {
			<-change.Withdraw
			return EvictionResult{Withdrawn: true}, nil
		},
		"ended": func(_ context.Context, change Changes) (EvictionResult, error) {
			<-change.Withdraw
			return EvictionResult{Processes: 1}, nil
		},
		"withdrawn with an error": func(_ context.Context, change Changes) (EvictionResult, error) {
			<-change.Withdraw
			return EvictionResult{Withdrawn: true}, errRefused
		},
		"static pod": func(ctx context.Context, _ Changes) (EvictionResult, error) {
			<-ctx.Done()
			return EvictionResult{Processes: 1, ProcessesRemain: true}, ctx.Err()
		},
	} {
		t.Run(about, func(t *testing.T) {
			policy := eviction.Settings{Thresholds: []eviction.Threshold{soft(), hard()}, StorageLimits: true}
			w := liveIn(t, 125*time.Second, Settings{}, policy, func(w *env, parts *Parts) {
				w.limits = limiter.Policy{PerHour: 9, MaxIneffective: 2, IneffectiveBackoff: time.Hour, OwnerBackoff: time.Hour}
				parts.Limiter = limiter.New(w.limits)
				parts.LimiterSaved = w.saveLimiter
				w.disk = 100 * gib
				p := w.add("both", 800*mib)
				p.FromAPI, p.asked, p.Owner = about != "static pod", asked, "o"
				p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
				w.later(95*time.Second, func() { p.disk = 2 * gib })
			})
			if got := w.verbs(); w.count(SoftEvicting) != 1 || w.count(Evicted) != 1 || w.count(Withdrawn) != 1 || w.count(SoftEnded) != 0 {
				t.Errorf("reported %v", got)
			}
			if k := &w.saved; len(k.Evictions) != 1 || len(k.Owners) != 1 || len(k.Owners[0].Evictions) != 1 {
				t.Errorf("saved %+v", k)
			}
		})
	}
}

// The second eviction ends the processes of the pod. The disk space of the first one is still
// being freed, so that no other pod is evicted.
func TestSoftEviction_SupersededStillWaitsForDisk(t *testing.T) {
	thresholds := []eviction.Threshold{{Signal: signals.NodefsAvailable, Value: quantity(10 * gib), Grace: time.Minute}, hard()}
	w := limitedRun(t, 135*time.Second, limiter.Policy{PerHour: 9}, thresholds, func(w *env) {
		w.disk, w.collects, w.ending = 20*gib, time.Second, time.Hour
		hog := w.add("hog", 500*mib)
		hog.FromAPI, hog.withdrawable, hog.disk, hog.removed = true, true, 9*gib, 20*time.Second
		w.later(95*time.Second, func() { hog.memory = 980 * mib })
		w.add("other", mib).disk = 5 * gib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/hog", "default/hog"}) || w.count(Evicted) != 1 || w.count(Withdrawn) != 1 || len(w.saved.Evictions) != 1 {
		t.Errorf("evicted %v, reported %v, saved %+v", got, w.verbs(), w.saved)
	}
}

// A budget refuses the soft eviction for a disk. That pod and another one are above their own
// limits.
func TestStorageLimit_DoesNotWaitForBudget(t *testing.T) {
	thresholds := []eviction.Threshold{{Signal: signals.NodefsAvailable, Value: quantity(10 * gib), Grace: time.Minute}, hard()}
	for _, above := range []string{"first", "other"} {
		w := liveIn(t, 115*time.Second, Settings{}, eviction.Settings{Thresholds: thresholds, StorageLimits: true}, func(w *env, _ *Parts) {
			w.disk, w.collects, w.ending = 20*gib, time.Second, time.Hour
			for name, disk := range map[string]signals.Amount{"first": 9 * gib, "other": 5 * gib} {
				p := w.add(name, mib)
				p.FromAPI, p.withdrawable, p.disk, p.removed = true, true, disk, time.Second
				p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: 20 * gib}}}
				if name == above {
					w.later(95*time.Second, func() { p.Volumes[0].SizeLimit.Value = gib })
				}
			}
		})
		if got := w.evicted(); !slices.Equal(got, []string{"default/first", "default/" + above}) || w.count(Evicted) != 1 || w.count(SoftEnded) != 0 {
			t.Errorf("%s is above its limit: evicted %v, reported %v", above, got, w.verbs())
		}
	}
}

// The pod was sent SIGKILL: there is nothing to escalate, and no other pod to choose.
func TestSoftEviction_SupersededIsNotEscalated(t *testing.T) {
	policy := eviction.Settings{Thresholds: []eviction.Threshold{soft(), hard()}, StorageLimits: true}
	w := liveIn(t, 125*time.Second, Settings{}, policy, func(w *env, _ *Parts) {
		w.disk, w.ending = 100*gib, time.Hour
		p := w.add("undead", 800*mib)
		p.FromAPI, p.withdrawable, p.unkillable = true, true, true
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		w.later(95*time.Second, func() { p.disk = 2 * gib })
		other := w.add("other", 10*mib)
		other.rate, other.since, other.until, other.then = 10*mib, time.Now().Add(95*time.Second), time.Now().Add(109*time.Second), 150*mib
	})
	if want := []Verb{SoftEvicting, Evicted, Withdrawn}; !slices.Equal(w.verbs(), want) {
		t.Errorf("reported %v, want %v", w.verbs(), want)
	}
}

// failures returns the errors of failed decisions.
func (w *env) failures() (all []string) {
	for _, d := range w.reported {
		if d.Decision == Failed {
			for _, f := range d.Failed {
				all = append(all, f.Reason)
			}
		}
	}
	return all
}
