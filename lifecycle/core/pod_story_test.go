package core_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// podScenario is a scenario of a pod p on node a, with the expected outcome.
type podScenario struct {
	name     string
	scenario func(h *harness)
	want     []string
}

var evictScenarios = []podScenario{
	{"pod without a node", func(h *harness) { h.pod("p", "nowhere") }, nil},
	{"node without taints", func(h *harness) { h.pod("p", "a") }, nil},
	{"pod created on a tainted node", func(h *harness) {
		h.taint("a", "k")
		h.at(5*second, func() { h.pod("p", "a") })
	}, []string{"5 evict a p taint"}},
	{"toleration from the creation of the pod", func(h *harness) {
		h.taint("a", "k")
		h.at(5*second, func() { h.pod("p", "a", tolerates("k", 100)) })
	}, []string{"105 evict a p taint"}},
	{"unlimited toleration", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", -1))
	}, nil},
	{"unlimited toleration of another taint", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("l", -1))
	}, []string{"0 evict a p taint"}},
	{"pod deleted first", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.removePod("p", 0) })
	}, nil},
	{"pod deleted by another client", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.changePod("p", 0, func(p *model.Pod) { p.Deleting = true }) })
	}, nil},
	{"finished pod", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.changePod("p", 0, func(p *model.Pod) { p.Finished = true }) })
	}, []string{"50 cancel a p"}},
	{"toleration removed", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.changePod("p", 0, func(p *model.Pod) { p.Tolerations = nil }) })
	}, []string{"50 evict a p taint"}},
	{"unlimited toleration added", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.setTolerations("p", tolerates("k", -1)) })
	}, []string{"50 cancel a p"}},
	{"toleration extended", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.setTolerations("p", tolerates("k", 150)) })
	}, []string{"150 evict a p taint"}},
	{"toleration shortened", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.setTolerations("p", tolerates("k", 70)) })
	}, []string{"70 evict a p taint"}},
	{"toleration shortened below the elapsed time", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.setTolerations("p", tolerates("k", 1)) })
	}, []string{"50 evict a p taint"}},
	{"node tainted later", func(h *harness) {
		h.pod("p", "a")
		h.at(50*second, func() { h.taint("a", "k") })
	}, []string{"50 evict a p taint"}},
	{"one of two taints tolerated", func(h *harness) {
		h.pod("p", "a", tolerates("k", -1))
		h.taint("a", "k")
		h.at(50*second, func() { h.taint("a", "l") })
	}, []string{"50 evict a p taint"}},
	{"taint removed", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(99*second, func() { h.untaint("a", "k") })
	}, []string{"99 cancel a p"}},
	{"taint removed at the deadline", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(100*second, func() { h.untaint("a", "k") })
	}, []string{"100 cancel a p"}},
	{"shorter of two tolerations, then its taint removed", func(h *harness) {
		h.pod("p", "a", tolerates("k", 100), tolerates("l", 20))
		h.taint("a", "k")
		h.at(50*second, func() { h.taint("a", "l") })
		h.at(60*second, func() { h.untaint("a", "l") })
	}, []string{"100 evict a p taint"}},
	{"unlimited, bounded, unlimited toleration", func(h *harness) {
		h.pod("p", "a", tolerates("k", -1), tolerates("l", 20))
		h.taint("a", "k")
		h.at(50*second, func() { h.taint("a", "l") })
		h.at(60*second, func() { h.untaint("a", "l") })
	}, []string{"60 cancel a p"}},
	{"several pods", func(h *harness) {
		h.pod("p1", "a", tolerates("k", 1))
		h.pod("p2", "a", tolerates("k", 50))
		h.pod("p3", "a")
		h.pod("p4", "a")
		h.at(5*second, func() { h.taint("a", "k") })
	}, []string{"5 evict a p3 taint", "5 evict a p4 taint", "6 evict a p1 taint", "55 evict a p2 taint"}},
	{"taint without a time", func(h *harness) {
		h.pod("p", "a", tolerates("k", 20))
		h.at(5*second, func() {
			h.change("a", func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", time.Time{})} })
		})
	}, []string{"25 evict a p taint"}},
	{"node deleted", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.deleteNode("a") })
	}, []string{"50 cancel a p"}},
	{"node recreated", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() { h.deleteNode("a") })
		h.at(60*second, func() { h.node("a") })
		h.at(70*second, func() { h.taint("a", "k") })
	}, []string{"50 cancel a p", "170 evict a p taint"}},
	{"pod recreated", func(h *harness) {
		h.taint("a", "k")
		h.pod("p", "a", tolerates("k", 100))
		h.at(50*second, func() {
			h.removePod("p", 0)
			h.podLike(model.Pod{Name: "p", UID: "another", Node: "a", Tolerations: []model.Toleration{tolerates("k", 100)}})
		})
	}, []string{"150 evict a p taint"}},
	{"node observed after its pod", func(h *harness) {
		h.pod("p", "late", tolerates("k", 100))
		h.at(5*second, func() {
			h.node("late", func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", h.now)} })
		})
	}, []string{"105 evict late p taint"}},
	{"taint with another effect", func(h *harness) {
		h.pod("p", "a")
		h.change("a", func(n *model.Node) { n.Taints = []model.Taint{{Key: "k", Effect: model.NoSchedule}} })
	}, nil},
}

func TestEvict_FollowsTaintsAndTolerations(t *testing.T) {
	for _, c := range evictScenarios {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.node("b")
			c.scenario(h)
			h.run(200 * second)
			h.expect("evict cancel", c.want...)
		})
	}
}

func (h *harness) setTolerations(uid string, tolerations ...model.Toleration) {
	h.changePod(uid, 0, func(p *model.Pod) { p.Tolerations = tolerations })
}

func TestEvict_HonoursTolerationOfUnreachable(t *testing.T) {
	for seconds, want := range map[int64][]string{200: {"240 evict a p taint"}, 0: {"40 evict a p taint"}, -1: nil} {
		h := newHarness(t, taintMode())
		h.node("a")
		h.node("b")
		h.pod("p", "a", tolerates(model.KeyUnreachable, seconds))
		h.at(0, func() { h.stop("a") })
		h.run(300 * second)
		h.expect("evict", want...)
	}
}

func TestMarkNotReady_MarksPodsOfUnreachableNode(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("ready", "a", defaultTolerations(-1)...)
	h.podLike(model.Pod{Name: "unready", Node: "a", Tolerations: defaultTolerations(-1)})
	h.podLike(model.Pod{Name: "finished", Node: "a", Tolerations: defaultTolerations(-1), Ready: true, Finished: true})
	h.pod("elsewhere", "b", defaultTolerations(-1)...)
	h.at(0, func() { h.stop("a") })
	h.at(50*second, func() { h.pod("late", "a", defaultTolerations(-1)...) })
	// Its kubelet disagrees: marking once is enough.
	h.at(60*second, func() { h.changePod("ready", 0, func(p *model.Pod) { p.Ready = true }) })
	h.at(100*second, func() { h.resume("a") })
	h.at(110*second, func() { h.changePod("late", 0, func(p *model.Pod) { p.Ready = true }) })
	// The node's own reports are for its kubelet to handle, until it is silent again.
	h.at(200*second, func() { h.ready("a", model.False) })
	h.at(250*second, func() { h.stop("a") })
	h.run(300 * second)
	h.expect("pod-not-ready", "40 pod-not-ready a ready", "50 pod-not-ready a late", "280 pod-not-ready a late", "280 pod-not-ready a ready")
}

func TestMarkNotReady_RetriesFailedWrite(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a", defaultTolerations(-1)...)
	h.at(0, func() { h.stop("a") })
	failed := 0
	h.faults = func(a *fleetAction) fault {
		if failed++; a.Kind == core.MarkNotReady && failed <= 5 {
			return fault{err: errFault}
		}
		return fault{}
	}
	h.run(300 * second)
	if lines := h.of("pod-not-ready"); len(lines) < 2 || h.pods["p"].Ready {
		t.Errorf("got Ready %v after the attempts %v", h.pods["p"].Ready, lines)
	}
}

func TestEvict_RetriesUntilPodIsGone(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.pod("p", "a")
	tries := 0
	h.faults = func(a *fleetAction) fault {
		if tries++; a.Kind == core.Evict && tries <= 4 {
			return fault{err: errFault}
		}
		return fault{}
	}
	h.at(0, func() { h.taint("a", "k") })
	h.run(300 * second)
	h.expect("evict cancel", "0 evict a p taint", "0.1 evict a p taint", "0.3 evict a p taint", "0.7 evict a p taint", "1.5 evict a p taint")
}

func TestEvict_CancelsFailedEviction(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.pod("p", "a")
	h.faults = func(*fleetAction) fault { return fault{err: errFault} }
	h.at(0, func() { h.taint("a", "k") })
	h.at(250*time.Millisecond, func() { h.untaint("a", "k") })
	h.run(300 * second)
	h.expect("evict cancel", "0 evict a p taint", "0.1 evict a p taint", "0.25 cancel a p")
}

func TestEvict_DoesNotCancelEvictionInProgress(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.pod("p", "a")
	h.faults = func(*fleetAction) fault { return fault{done: 5 * second, shown: 5 * second} }
	h.at(0, func() { h.taint("a", "k") })
	h.at(2*second, func() { h.untaint("a", "k") })
	h.run(100 * second)
	h.expect("evict cancel", "0 evict a p taint")
}

func TestEvict_RepeatsDeleteWithoutEffect(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.podLike(model.Pod{Name: "p", Node: "a"})
	h.taint("a", "k")
	h.faults = func(a *fleetAction) fault { return fault{shown: 45 * second} }
	h.run(100 * second)
	h.expect("evict", "0 evict a p taint", "30 evict a p taint")
}

func TestEvict_SortsSimultaneousEvictionsByName(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	for _, i := range []int{3, 1, 2} {
		h.podLike(model.Pod{Name: fmt.Sprint("p", i), UID: fmt.Sprint(9 - i), Node: "a", Tolerations: []model.Toleration{tolerates("k", 10)}})
	}
	h.taint("a", "k")
	h.run(100 * second)
	h.expect("evict", "10 evict a p1 taint", "10 evict a p2 taint", "10 evict a p3 taint")
}
