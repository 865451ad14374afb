package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// podGCMode is a policy that deletes the objects of evicted pods after five minutes.
func podGCMode() core.Policy {
	p := taintMode()
	p.EvictedPodTTL = 5 * minute
	return p
}

// agentEvicts evicts a pod as its node's agent does.
func (h *harness) agentEvicts(uid string) {
	now := h.now
	h.changePod(uid, 0, func(p *model.Pod) { p.Finished, p.Ready, p.Evicted = true, false, &now })
}

func TestDeleteEvictedPod_WaitsForTTL(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy core.Policy
		do     func(h *harness) // at 100 s
		want   []string
	}{
		{"evicted pod", podGCMode(), func(h *harness) { h.agentEvicts("web") }, []string{"400 delete-evicted-pod a web"}},
		{"no TTL", taintMode(), func(h *harness) { h.agentEvicts("web") }, nil},
		{"failed pod", podGCMode(), func(h *harness) {
			h.changePod("web", 0, func(p *model.Pod) { p.Finished, p.Ready = true, false })
		}, nil},
		{"pod that changes", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			for after := second; after < 5*minute; after += 20 * second {
				h.at(100*second+after, func() { h.changePod("web", 0, func(*model.Pod) {}) })
			}
		}, []string{"400 delete-evicted-pod a web"}},
		{"several failovers", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			for after := second; after < 5*minute; after += 30 * second {
				h.at(100*second+after, h.restart)
			}
		}, []string{"400 delete-evicted-pod a web"}},
		{"deleted node", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			h.at(150*second, func() { h.deleteNode("a") })
		}, []string{"400 delete-evicted-pod a web"}},
		{"mark removed", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			h.at(399*second, func() { h.changePod("web", 0, func(p *model.Pod) { p.Evicted = nil }) })
		}, nil},
		{"pod deleted by another client", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			h.at(399*second, func() { h.changePod("web", 0, func(p *model.Pod) { p.Deleting = true }) })
		}, nil},
		{"another pod of the same name", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			h.at(399*second, func() {
				h.removePod("web", 0)
				h.podLike(model.Pod{Name: "web", UID: "web-2", Node: "a"})
			})
		}, nil},
		{"overdue pod after a takeover", podGCMode(), func(h *harness) {
			h.agentEvicts("web")
			h.at(200*second, func() { h.fleet.StopLeading(h.now) })
			h.at(500*second, func() { h.fleet.Lead(h.now, h.now) })
		}, []string{"500 delete-evicted-pod a web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, c.policy)
			h.node("a")
			h.node("b")
			h.pod("web", "a")
			h.pod("other", "a")
			h.at(100*second, func() { c.do(h) })
			h.run(20 * minute)
			h.expect("delete-evicted-pod", c.want...)
			h.expect("evict cancel")
		})
	}
}

func TestDeleteEvictedPod_RetriesWithBackoff(t *testing.T) {
	h := newHarness(t, podGCMode())
	h.node("a")
	h.node("b")
	h.pod("web", "a")
	h.at(100*second, func() { h.agentEvicts("web") })
	h.faults = func(a *core.Action) (f fault) {
		if a.Kind == core.DeleteEvictedPod && h.now.Before(at(20*minute)) {
			f.err = errFault
		}
		return f
	}
	h.run(2 * time.Hour)
	h.expect("delete-evicted-pod", "400 delete-evicted-pod a web", "410 delete-evicted-pod a web", "430 delete-evicted-pod a web", "470 delete-evicted-pod a web",
		"550 delete-evicted-pod a web", "710 delete-evicted-pod a web", "1030 delete-evicted-pod a web", "1630 delete-evicted-pod a web")
}

// TestDeleteEvictedPod_WaitsForCurrentView covers an API server without answers: the known state
// may be outdated, because the mark may have been removed.
func TestDeleteEvictedPod_WaitsForCurrentView(t *testing.T) {
	p := podGCMode()
	p.Confirmation.LiveReads = true
	h := newHarness(t, p)
	h.node("a")
	h.pod("web", "a")
	h.pod("late", "a")
	cut := false
	h.lossy = func() bool { return cut }
	h.readError = func(string) error {
		if cut {
			return errFault
		}
		return nil
	}
	h.at(100*second, func() { h.agentEvicts("web") })
	h.at(300*second, func() { h.agentEvicts("late") })
	h.at(395*second, func() { cut = true; h.fleet.Unreachable(h.now) })
	h.at(495*second, func() { cut = false })
	h.run(20 * minute)
	// A live read succeeds at 495 s, and all pods have 40 s after that.
	h.expect("delete-evicted-pod", "535 delete-evicted-pod a web", "600 delete-evicted-pod a late")
}

// TestDeleteEvictedPod_BecomesObsolete checks that a waiting delete becomes obsolete if the pod
// must not be deleted any more.
func TestDeleteEvictedPod_BecomesObsolete(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(h *harness)
		gone    bool
	}{
		"no change":                 {func(*harness) {}, true},
		"mark removed":              {func(h *harness) { h.changePod("web", 0, func(p *model.Pod) { p.Evicted = nil }) }, false},
		"deleted by another client": {func(h *harness) { h.changePod("web", 0, func(p *model.Pod) { p.Deleting = true }) }, false},
		"marked again":              {func(h *harness) { h.agentEvicts("web") }, false},
		"API server unreachable":    {func(h *harness) { h.fleet.Unreachable(h.now) }, false},
		"leadership lost":           {func(h *harness) { h.fleet.StopLeading(h.now) }, false},
	} {
		h := newHarness(t, podGCMode())
		h.node("a")
		h.pod("web", "a")
		h.faults = func(*core.Action) fault { return fault{carried: 3 * second} }
		h.at(100*second, func() { h.agentEvicts("web") })
		h.at(402*second, func() { c.happens(h) })
		h.run(404 * second)
		h.expect("delete-evicted-pod", "400 delete-evicted-pod a web")
		if gone := h.pods["web"] == nil; gone != c.gone {
			t.Errorf("%s: deleted: got %v, want %v", name, gone, c.gone)
		}
	}
}
