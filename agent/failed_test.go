package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// The report to the API server precedes the kill, which fails for every pod. One check reports at
// most one pod. After three attempts the next pod is tried.
func TestFailed_ReportedKillEndsCheck(t *testing.T) {
	w := live(t, 35*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
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
