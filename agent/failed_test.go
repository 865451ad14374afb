package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// The report to the API server precedes the kill, which fails for every pod. One check reports at
// most one pod. After three attempts the next pod is tried.
func TestFailed_ReportedKillEndsCheck(t *testing.T) {
	w := live(t, 95*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.killErr, w.killStatus = errRefused, StatusReported
		w.add("a", 400*mib)
		w.add("b", 300*mib)
		w.add("c", 290*mib)
	})
	var tried []string
	for _, d := range w.reported {
		reported := 0
		for _, f := range d.Failed {
			if strings.Contains(f.Reason, "the API server has recorded") {
				tried = append(tried, f.Pod)
				reported++
			}
		}
		if reported > 1 {
			t.Errorf("one check reported %d pods to the API server: %v", reported, d.Failed)
		}
	}
	if want := []string{"default/a", "default/a", "default/a", "default/b"}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

// The kubelet may end a pod that the API server stores as evicted, though the agent could not kill it. The
// agent no longer lists it. The next pod is tried if it has not ended after 30 s, or if memory would be
// exhausted meanwhile.
func TestFailed_ReportedPodIsWaitedFor(t *testing.T) {
	for about, tc := range map[string]struct {
		setup func(w *env, first, next *envPod)
		tried []string // the first two pods
		why   string   // the end of the first wait
	}{
		"ended by the kubelet": {func(w *env, first, _ *envPod) {
			w.later(12*time.Second, func() { w.pods = slices.DeleteFunc(w.pods, func(p *envPod) bool { return p == first }) })
		}, []string{"default/first at 0s"}, inflight.Recovered},
		"not ended": {func(*env, *envPod, *envPod) {}, []string{"default/first at 0s", "default/next at 30s"}, "not freed in time"},
		"not ended, above a storage limit": {func(w *env, first, next *envPod) {
			w.disk = 100 * gib
			for _, p := range []*envPod{first, next} {
				p.memory, p.disk = mib, 2*gib
				p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
			}
		}, []string{"default/first at 0s", "default/next at 30s"}, "not freed in time"},
		"exhaustion imminent": {func(_ *env, _, next *envPod) {
			next.rate, next.since = 40*mib, time.Now().Add(2*time.Second)
		}, []string{"default/first at 0s", "default/next at 3s"}, "no time left to wait"},
	} {
		t.Run(about, func(t *testing.T) {
			var begun time.Time
			policy := eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}
			w := liveIn(t, 35*time.Second, Settings{}, policy, func(w *env, _ *Parts) {
				begun, w.killErr, w.killStatus = time.Now(), errRefused, StatusReported
				first, next := w.add("first", 600*mib), w.add("next", 330*mib)
				first.unlisted = begun
				tc.setup(w, first, next)
			})
			var tried []string
			for _, d := range w.lines(Failed) {
				for _, f := range d.Failed {
					tried = append(tried, fmt.Sprintf("%s at %s", f.Pod, d.Time.Sub(begun).Truncate(time.Second)))
				}
			}
			if tried = tried[:min(len(tried), 2)]; !slices.Equal(tried, tc.tried) {
				t.Errorf("tried %v, want %v; reported %v", tried, tc.tried, w.verbs())
			}
			if done := w.lines(ReclaimDone); len(done) == 0 || done[0].Pod != "default/first" || done[0].Reason != tc.why {
				t.Errorf("reported %v, want the end of the wait for the first pod: %s", w.verbs(), tc.why)
			}
			if len(w.evicted()) != 0 {
				t.Errorf("evicted %v", w.evicted())
			}
		})
	}
}

// Exhaustion ends the wait. The next attempt is no earlier than after any other failure.
func TestFailed_ReportedKillDelaysRetryOnExhaustion(t *testing.T) {
	var begun time.Time
	w := live(t, 5*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		begun, w.killErr, w.killStatus = time.Now(), errRefused, StatusReported
		leak := w.add("leak", 900*mib)
		leak.rate, leak.since = 40*mib, time.Now().Add(time.Second)
		w.add("other", 10*mib)
	})
	var at []time.Duration
	for _, d := range w.lines(Failed) {
		at = append(at, d.Time.Sub(begun))
	}
	if len(at) < 2 || at[1]-at[0] < failurePace || at[1]-at[0] > 2*failurePace {
		t.Errorf("tried at %v, want a pause of %s between the first two; reported %v", at, failurePace, w.verbs())
	}
}

// No kill succeeds, and an owner replaces the pod that the kubelet has ended. A disk comes after memory, and is
// full as well. Its garbage is collected before a pod is chosen for it.
func TestFailed_ReportedKillsDoNotDelayOtherConditions(t *testing.T) {
	policy := eviction.Settings{Thresholds: full(), EarlyEviction: eviction.Never}
	w := liveIn(t, 15*time.Second, Settings{}, policy, func(w *env, _ *Parts) {
		w.killErr, w.killStatus, w.disk, w.collects = errRefused, StatusReported, 20*gib, 3*time.Second
		w.add("full", 10*mib).disk = 15 * gib
		hog := w.add("hog", 950*mib)
		w.later(5*time.Second, func() { w.pods = slices.DeleteFunc(w.pods, func(p *envPod) bool { return p == hog }) })
		w.later(6*time.Second, func() { w.add("replacement", 950*mib) })
	})
	var tried []string
	for _, d := range w.lines(Failed) {
		tried = append(tried, d.Failed[0].Pod)
	}
	if want := []string{"default/hog", "default/full"}; len(tried) < 2 || !slices.Equal(tried[:2], want) {
		t.Errorf("tried %v, want %v first; reported %v", tried, want, w.verbs())
	}
}

// The soft eviction of a pod is escalated, and the kill fails. No other pod is evicted in its place: the
// kubelet ends it.
func TestFailed_ReportedEscalationIsWaitedFor(t *testing.T) {
	w := live(t, 105*time.Second, false, []eviction.Threshold{hard(), soft()}, func(w *env) {
		begun := time.Now()
		slow := w.add("slow", 800*mib)
		slow.FromAPI, slow.unlisted = true, begun.Add(70*time.Second)
		slow.asked = func(_ context.Context, change Changes) (EvictionResult, error) {
			<-change.Escalate
			return EvictionResult{Status: StatusReported}, errRefused
		}
		w.later(92*time.Second, func() { w.pods = slices.DeleteFunc(w.pods, func(p *envPod) bool { return p == slow }) })
		other := w.add("other", 10*mib)
		w.later(65*time.Second, func() { other.memory = 140 * mib })
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/slow"}) || w.count(Escalated) != 1 || w.count(SoftEnded) != 1 {
		t.Errorf("evicted %v; reported %v", got, w.verbs())
	}
	if done := w.lines(ReclaimDone); len(done) != 1 || done[0].Reason != inflight.Recovered {
		t.Errorf("reported %v, want one wait until the kubelet has ended the pod", w.verbs())
	}
}

// Memory is short as well, and no pod is tried for it in the same check.
func TestFailed_ReportedKillForStorageLimitEndsCheck(t *testing.T) {
	w := liveIn(t, 9*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *env, _ *Parts) {
		w.killErr, w.killStatus, w.disk = errRefused, StatusReported, 100*gib
		for _, name := range []string{"a", "b"} {
			p := w.add(name, 490*mib)
			p.disk = 2 * gib
			p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		}
	})
	if len(w.failures()) != 1 || w.count(Failed) != 1 || len(w.evicted()) != 0 {
		t.Errorf("reported %v, failed %v", w.verbs(), w.failures())
	}
}
