package core_test

import (
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestLegacy_EvictsPodsOfUnreadyNode(t *testing.T) {
	h := newHarness(t, legacyMode())
	for _, n := range []string{"a", "b", "c", "d"} {
		h.node(n)
	}
	h.pod("web", "a")
	h.pod("forever", "a", defaultTolerations(-1)...)
	h.podLike(model.Pod{Name: "daemon", Node: "a", Ready: true, Daemon: true})
	h.podLike(model.Pod{Name: "done", Node: "a", Finished: true})
	h.podLike(model.Pod{Name: "going", Node: "a", Deleting: true})
	h.pod("bare", "b")
	h.pod("web2", "c")
	h.at(30*second, func() { h.taint("b", "k") })
	h.at(30*second, func() { h.ready("c", model.False) })
	h.at(60*second, func() { h.stop("a") })
	h.at(400*second, func() { h.pod("late", "a") })
	h.at(500*second, func() { h.resume("a") })
	h.at(510*second, func() { h.pod("after", "a") })
	h.run(600 * second)
	h.expect("taint evict cancel",
		"30 taint c +not-ready:NoSchedule",
		"90 taint a +unreachable:NoSchedule",
		"330 evict c web2 node-lost",
		"350 evict a forever node-lost",
		"350 evict a web node-lost",
		"400 evict a late node-lost",
		"500 taint a -unreachable:NoSchedule")
	h.expect("pod-not-ready", "90 pod-not-ready a daemon", "90 pod-not-ready a forever", "90 pod-not-ready a web", "400 pod-not-ready a late")
}

func TestLegacy_LimitsRatePerZone(t *testing.T) {
	h := newHarness(t, legacyMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
		if i != 1 {
			h.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i))
		}
	}
	h.at(5*second, func() { h.stop("n0", "n1", "n2", "n3") })
	h.run(600 * second)
	// n1 has no pods: it costs no token.
	h.expect("evict", "300 evict n0 p0 node-lost", "310 evict n2 p2 node-lost", "320 evict n3 p3 node-lost")
}

func TestLegacy_FullDisruptionStopsEvictions(t *testing.T) {
	h := newHarness(t, legacyMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a")
	h.pod("q", "b")
	h.at(5*second, func() { h.stop("a") })
	h.at(200*second, func() { h.stop("b") })
	h.at(700*second, func() { h.resume("b") })
	h.run(800 * second)
	h.expect("evict", "710 evict a p node-lost")
}

func TestLegacy_EvictsNoPodAfterRecovery(t *testing.T) {
	h := newHarness(t, legacyMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a")
	h.at(5*second, func() { h.stop("a") })
	h.at(299*second, func() { h.resume("a") })
	h.run(800 * second)
	h.expect("evict")
}

func TestLegacy_RetriesFailedEviction(t *testing.T) {
	h := newHarness(t, legacyMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a")
	tries := 0
	h.faults = func(a *fleetAction) fault {
		if a.Kind == core.Evict {
			if tries++; tries < 3 {
				return fault{err: errFault}
			}
		}
		return fault{}
	}
	h.at(5*second, func() { h.stop("a") })
	h.run(600 * second)
	h.expect("evict", "300 evict a p node-lost", "300.1 evict a p node-lost", "300.3 evict a p node-lost")
	if n := len(h.of("event")); n != 4 {
		t.Errorf("got %d events, want 4: %v", n, h.of("event"))
	}
}

func TestPolicy_MixedModes(t *testing.T) {
	scenario := func(h *harness) {
		h.node("a")
		h.node("b")
		h.node("c")
		h.pod("p", "a", defaultTolerations(60)...)
		h.pod("q", "b", tolerates("k", 20))
		h.at(5*second, func() { h.stop("a") })
		h.at(10*second, func() { h.taint("b", "k") })
		h.run(600 * second)
	}
	t.Run("user taints, and lost nodes after a timeout", func(t *testing.T) {
		h := newHarness(t, mixedMode())
		scenario(h)
		h.expect("taint evict", "30 evict b q taint", "40 taint a +unreachable:NoSchedule", "300 evict a p node-lost")
	})
	t.Run("taints without evictions", func(t *testing.T) {
		p := taintMode()
		p.TaintEvictions = false
		h := newHarness(t, p)
		scenario(h)
		h.expect("taint evict", "40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute")
	})
}
