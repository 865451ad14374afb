package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// lines returns the decisions with the verb.
func (w *env) lines(v Verb) (found []*Decision) {
	for _, d := range w.reported {
		if d.Decision == v {
			found = append(found, d)
		}
	}
	return found
}

// A pod with a grace period of a day that ignores SIGTERM holds the missing amount. It counts for
// 30 s, then it is the one to be killed.
func TestAwaitDeleted_LongGraceIsBounded(t *testing.T) {
	for about, setup := range map[string]func(w *env, going, other *envPod){
		"memory": func(_ *env, going, other *envPod) { going.memory, other.memory = 500*mib, 440*mib },
		"disk": func(w *env, going, other *envPod) {
			w.disk, w.collects = 20*gib, time.Second
			going.disk = 8 * gib
			other.disk = 7 * gib
		},
	} {
		t.Run(about, func(t *testing.T) {
			var begun time.Time
			w := live(t, 2*time.Minute, false, full(), func(w *env) {
				begun = time.Now()
				going, other := w.add("going", mib), w.add("other", mib)
				setup(w, going, other)
				going.EndsBy = begun.Add(24 * time.Hour)
			})
			first := w.lines(Evicted)
			if len(first) == 0 || first[0].Pod != "default/going" || first[0].Time.Sub(begun) > 40*time.Second {
				t.Fatalf("reported %v", w.verbs())
			}
			if blocked := w.lines(Blocked); len(blocked) != 1 || !strings.Contains(blocked[0].Reason, "being deleted") || blocked[0].Threshold == "" || len(blocked[0].Ranking) != 2 {
				t.Errorf("the block was reported %d times, want once: %+v", len(blocked), blocked)
			}
		})
	}
}

// Pods are deleted one after the other. Each holds the missing amount, and is recreated. The wait
// is bounded for all of them together.
func TestAwaitDeleted_ChainOfDeletionsIsBounded(t *testing.T) {
	var begun time.Time
	w := live(t, 45*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		begun = time.Now()
		for i := range 3 {
			going := w.add(fmt.Sprintf("going-%d", i), 310*mib)
			if i == 0 {
				going.EndsBy = begun.Add(24 * time.Hour)
			} else {
				w.later(time.Duration(i)*12*time.Second-time.Second, func() { going.EndsBy = begun.Add(24 * time.Hour) })
			}
			if i < 2 { // it ends in time, and another one takes its memory
				w.later(time.Duration(i+1)*12*time.Second, func() {
					w.pods = slices.DeleteFunc(w.pods, func(p *envPod) bool { return p == going })
					w.add(fmt.Sprintf("next-%d", i), 310*mib)
				})
			}
		}
	})
	got := w.lines(Evicted)
	if len(got) == 0 {
		t.Fatalf("reported %v", w.verbs())
	}
	if after := got[0].Time.Sub(begun); after != maxMetWait {
		t.Errorf("evicted after %s; reported %v", after, w.verbs())
	}
}

// A pod with a long grace period is overdue. A pod deleted later holds the whole missing amount.
// The check waits for the later one, for its grace period or for 20 s, and no other pod ends.
func TestAwaitDeleted_WaitsForLaterPodDespiteOverdueOne(t *testing.T) {
	for about, leaves := range map[string]bool{"later pod ends in time": true, "later pod does not end": false} {
		t.Run(about, func(t *testing.T) {
			var begun time.Time
			w := live(t, 90*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
				begun = time.Now()
				for i := range 2 {
					w.add(fmt.Sprintf("overdue-%d", i), 5*mib).EndsBy = begun.Add(time.Hour)
				}
				filler := w.fills("filler") // from 50 s on, 26 MiB are missing
				w.later(45*time.Second, func() { filler.EndsBy = begun.Add(75 * time.Second) })
				if leaves {
					w.later(65*time.Second, func() { w.pods = slices.DeleteFunc(w.pods, func(p *envPod) bool { return p == filler }) })
				}
			})
			first := w.lines(Evicted)
			switch {
			case leaves && len(first) == 0 && w.count(Blocked) == 1:
			case !leaves && len(first) == 1 && first[0].Pod == "default/filler" && first[0].Time.Sub(begun) == 50*time.Second+maxMetWait:
			default:
				t.Errorf("evicted %v; reported %v", w.evicted(), w.verbs())
			}
		})
	}
}

// A deleted and counted pod holds too little by itself. Together with an overdue one it holds
// enough: the larger one ends.
func TestAwaitDeleted_EvictsLargestDeletedPodIfOthersTooSmall(t *testing.T) {
	w := live(t, 55*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("overdue", 10*mib).EndsBy = time.Now().Add(time.Hour)
		going := w.add("going", 20*mib)
		w.fills("filler").then = 920 * mib // 26 MiB are missing
		w.later(45*time.Second, func() { going.EndsBy = time.Now().Add(time.Hour) })
	})
	if got := w.evicted(); len(got) == 0 || got[0] != "default/going" {
		t.Errorf("evicted %v; reported %v", got, w.verbs())
	}
}

// A deleted critical pod is not killed. It is also no longer counted.
func TestAwaitDeleted_WaitForProtectedPodIsBounded(t *testing.T) {
	w := live(t, 45*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		going := w.add("going", 500*mib)
		going.Protection, going.EndsBy = signals.Critical, time.Now().Add(24*time.Hour)
		w.add("other", 440*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/other"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestBlocked_ShutdownReportedOnce(t *testing.T) {
	w := liveIn(t, 55*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		w.add("big", 950*mib)
		p.Draining = func() string { return "the node is shutting down" }
	})
	if got := w.lines(Blocked); len(got) != 1 || got[0].Reason != "the node is shutting down" {
		t.Errorf("reported %v", w.verbs())
	}
}

// If every pod is protected, no eviction is tried. This is reported once, and again after another
// eviction in between.
func TestFailed_WithoutAttemptReportedOnce(t *testing.T) {
	w := live(t, 95*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("static", 950*mib).Protection = signals.Static
		w.later(45*time.Second, func() { w.add("small", 2*mib) })
	})
	if want := []Verb{Failed, Evicted, ReclaimDone, Failed}; !slices.Equal(w.verbs(), want) {
		t.Errorf("reported %v, want %v", w.verbs(), want)
	}
}

// crashLoop has three pods of one owner evicted for nodefs. The fourth leaves more space than the
// others.
func crashLoop(w *env, available, left signals.Amount) {
	w.disk, w.collects = 100*gib, time.Second
	for i := range 4 {
		begin := func() {
			p := w.add(fmt.Sprintf("loop-%d", i), mib)
			p.Owner, p.Priority = "rs", -1
			p.disk = 100*gib - available
			if i == 3 {
				p.disk -= left
			}
		}
		if i == 0 {
			begin() // before the first check
			continue
		}
		w.later(time.Duration(i)*40*time.Second, begin)
	}
}

// With nothing available, or less than half of the threshold, the owner's pods are evicted.
func TestOwnerBackoff_IgnoredOnExhaustion(t *testing.T) {
	for about, tc := range map[string]struct {
		available signals.Amount
		want      int
	}{"nothing available": {-5 * gib, 4}, "less than half": {-gib, 4}, "more than half": {6 * gib, 3}} {
		w := limitedRun(t, 4*time.Minute, limiter.Policy{OwnerBackoff: 30 * time.Minute}, full(), func(w *env) {
			crashLoop(w, tc.available, 0)
		})
		if got := w.count(Evicted); got != tc.want {
			t.Errorf("%s: %d evictions, want %d; reported %v", about, got, tc.want, w.verbs())
		}
	}
}

// After a pod with a limited eviction, a hog is evicted: it holds the whole missing amount, and
// more than its request. Another pod is not.
func TestOwnerBackoff_EvictsHogRankedBehind(t *testing.T) {
	for about, tc := range map[string]struct {
		hog     signals.Amount
		request signals.Amount
		goes    bool
	}{"hog": {3 * gib, 0, true}, "hog above its request": {3 * gib, 2 * gib, true}, "too small": {2 * gib, 0, false}, "within its request": {20 * gib, 21 * gib, false}} {
		w := limitedRun(t, 4*time.Minute, limiter.Policy{OwnerBackoff: 30 * time.Minute}, full(), func(w *env) {
			crashLoop(w, 2*gib, 5*gib) // 7 GiB are available with the fourth, and 3 are missing
			w.disk += tc.hog
			p := w.add("behind", mib)
			p.disk = tc.hog
			p.StorageRequest.Value = tc.request
		})
		if got := slices.Contains(w.evicted(), "default/behind"); got != tc.goes {
			t.Errorf("%s: evicted %v", about, w.evicted())
		}
		for _, d := range w.reported {
			if d.Decision == Evicted && d.Pod == "default/behind" && (d.LimitedBy != "owner" || !strings.Contains(d.Reason, "the evicted pod behind it exceeds its request")) {
				t.Errorf("%s: the line does not explain the choice: %+v", about, d)
			}
		}
	}
}

// The line of an eviction names the limit of pods before it in the ranking, and no limit of a pod that has no part in it.
func TestEvicted_NamesLimitOfPodsBeforeIt(t *testing.T) {
	quota := limitedRun(t, 20*time.Minute, limiter.Policy{PerHour: 5}, []eviction.Threshold{hard()}, func(w *env) {
		for i := range 6 {
			w.later(time.Duration(i)*time.Minute, func() { w.fills(fmt.Sprintf("cheap-%d", i)).Namespace = "cheap" })
		}
		w.later(10*time.Minute, func() {
			w.pods = nil
			for name, size := range map[string]signals.Amount{"small": 5 * mib, "large": 100 * mib} {
				p := w.add(name, size)
				p.Namespace, p.Priority = "cheap", -1
			}
			w.fills("behind")
		})
	})
	storage := liveIn(t, 10*time.Minute, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *env, parts *Parts) {
		w.disk = 1000 * gib
		p := limiter.Policy{OwnerBackoff: 30 * time.Minute}
		parts.Limiter, parts.LimiterSaved, parts.Consumers, w.limits = limiter.New(p), w.saveLimiter, w, p
		add := func(name, owner string) {
			q := w.add(name, 1)
			q.disk, q.Owner = 2*gib, owner
			q.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		}
		for i := range 4 {
			w.later(time.Duration(i)*time.Minute, func() { add(fmt.Sprintf("loop-%d", i), "rs") })
		}
		w.later(5*time.Minute, func() { add("behind", "other") })
	})
	for about, tc := range map[string]struct {
		of        *env
		limitedBy string
	}{"quota": {quota, "quota"}, "storage limit": {storage, ""}} {
		i := slices.IndexFunc(tc.of.reported, func(d *Decision) bool { return d.Decision == Evicted && d.Pod == "default/behind" })
		if i < 0 {
			t.Fatalf("%s: evicted %v", about, tc.of.evicted())
		}
		if d := tc.of.reported[i]; d.LimitedBy != tc.limitedBy || strings.Contains(d.Reason, "limited") {
			t.Errorf("%s: limited by %q: %s", about, d.LimitedBy, d.Reason)
		}
	}
}

// fills adds a pod that fills memory until 84 MiB are available, too slowly for imminent
// exhaustion.
func (w *env) fills(name string) *envPod {
	p := w.add(name, 0)
	p.rate, p.since, p.until, p.then = 20*mib, time.Now(), time.Now().Add(47*time.Second), 940*mib
	return p
}

// Cheap pods of one namespace use up the hourly quota. A hog of another one follows.
func TestQuota_CheapPodsDoNotProtectHogElsewhere(t *testing.T) {
	w := limitedRun(t, 20*time.Minute, limiter.Policy{PerHour: 5}, []eviction.Threshold{hard()}, func(w *env) {
		for i := range 6 {
			w.later(time.Duration(i)*time.Minute, func() {
				w.fills(fmt.Sprintf("cheap-%d", i)).Namespace = "cheap"
			})
		}
		w.later(10*time.Minute, func() {
			w.pods = nil
			w.fills("hog")
		})
	})
	evicted := w.evicted()
	if n := len(evicted); n != 6 || evicted[5] != "default/hog" {
		t.Errorf("evicted %v", evicted)
	}
}

// Exhausted memory has its own quota.
func TestQuota_SeparateOnExhaustion(t *testing.T) {
	w := limitedRun(t, 30*time.Minute, limiter.Policy{PerHour: 1}, []eviction.Threshold{hard()}, func(w *env) {
		for i := range 10 {
			w.later(time.Duration(i)*time.Minute, func() { w.add(fmt.Sprintf("p-%d", i), 1020*mib) })
		}
	})
	if got := len(w.evicted()); got != limiter.UrgentBounds || w.count(Limited) != 1 {
		t.Errorf("%d evictions; reported %v", got, w.verbs())
	}
}

// Tmpfs files of two pods are freed so late that their evictions seem ineffective. Their memory
// does not grow again: the hog is not protected for the whole backoff.
func TestIneffective_EvictsHogWithoutGrowthOutsidePods(t *testing.T) {
	w := limitedRun(t, 6*time.Minute, limiter.Policy{MaxIneffective: 2, IneffectiveBackoff: time.Hour}, []eviction.Threshold{hard()}, func(w *env) {
		w.daemon(0, 0)
		for i := range 2 {
			p := w.add(fmt.Sprintf("files-%d", i), 250*mib)
			p.files, p.mounted, p.Priority = gib, time.Hour, -1
		}
		w.add("hog", 500*mib)
	})
	if got := w.evicted(); len(got) != 3 || got[2] != "default/hog" || len(w.lines(Ineffective)) != 2 || w.lines(Ineffective)[1].Repeated != RepeatMeasured {
		t.Errorf("evicted %v; reported %v", got, w.verbs())
	}
}

// A PodDisruptionBudget that never allows an eviction blocks soft evictions for a bounded time.
// Then the next pod is tried. A pod that was given up on is retried with growing intervals.
func TestSoftEviction_NextPodAfterGivingUp(t *testing.T) {
	const hours = 24
	w := live(t, hours*time.Hour, false, []eviction.Threshold{soft()}, func(w *env) {
		for i := range 20 {
			p := w.add(fmt.Sprintf("never-%d", i), 35*mib)
			p.FromAPI, p.Priority = true, -1
			p.asked = func(ctx context.Context, change Changes) (EvictionResult, error) {
				select {
				case <-time.After(5*time.Minute + 30*time.Second):
					return EvictionResult{Withdrawn: true, GivenUp: true}, errors.New("refused by a budget")
				case <-change.Withdraw:
					return EvictionResult{Withdrawn: true}, nil
				case <-ctx.Done():
				}
				return EvictionResult{}, ctx.Err()
			}
		}
		w.add("last", 40*mib).FromAPI = true
	})
	asked := w.evicted()
	if i := slices.Index(asked, "default/last"); i < 0 || i > 40 {
		t.Errorf("%d requests before the pod that ends: %v", i, asked)
	}
	if n := w.count(Withdrawn); n > 200 {
		t.Errorf("gave up %d requests in %d hours, want at most 200", n, hours)
	}
}

// An unconfirmed rate is not the same as an observation without imminent exhaustion.
func TestPending_ReasonOfUnconfirmedRate(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		hog := w.add("hog", 1<<30-300*mib)
		hog.rate, hog.since = 300*mib, time.Now().Add(time.Second)
	})
	unconfirmed := 0
	for _, d := range w.lines(Pending) {
		if strings.Contains(d.Reason, "not imminent") && d.TimeToExhaustion != nil && *d.TimeToExhaustion <= 500 {
			t.Errorf("reported as not imminent: %s", d.Reason)
		}
		if strings.Contains(d.Reason, "not confirmed yet") {
			unconfirmed++
		}
	}
	if unconfirmed != 1 {
		t.Errorf("%d lines name an unconfirmed rate, want 1; reported %v", unconfirmed, w.verbs())
	}
}
