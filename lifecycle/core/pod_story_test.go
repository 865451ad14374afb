package core_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// podStory is a story about a pod p on node a, with the expected outcome.
type podStory struct {
	name  string
	story func(w *world)
	want  []string
}

var whenPodsGo = []podStory{
	{"a pod without a node", func(w *world) { w.pod("p", "nowhere") }, nil},
	{"a node without taints", func(w *world) { w.pod("p", "a") }, nil},
	{"created on a tainted node", func(w *world) {
		w.taint("a", "k")
		w.at(5*second, func() { w.pod("p", "a") })
	}, []string{"5 evict a p taint"}},
	{"bears it for a while, from its own creation on", func(w *world) {
		w.taint("a", "k")
		w.at(5*second, func() { w.pod("p", "a", bears("k", 100)) })
	}, []string{"105 evict a p taint"}},
	{"bears it for ever", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", -1))
	}, nil},
	{"bears something else for ever", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("l", -1))
	}, []string{"0 evict a p taint"}},
	{"the pod is deleted first", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.removePod("p", 0) })
	}, nil},
	{"somebody else is deleting it", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.changePod("p", 0, func(p *model.Pod) { p.Deleting = true }) })
	}, nil},
	{"it ends by itself", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.changePod("p", 0, func(p *model.Pod) { p.Finished = true }) })
	}, []string{"50 cancel a p"}},
	{"it no longer bears it", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.changePod("p", 0, func(p *model.Pod) { p.Tolerations = nil }) })
	}, []string{"50 evict a p taint"}},
	{"it bears it now", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.bear("p", bears("k", -1)) })
	}, []string{"50 cancel a p"}},
	{"longer than before", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.bear("p", bears("k", 150)) })
	}, []string{"150 evict a p taint"}},
	{"shorter than before", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.bear("p", bears("k", 70)) })
	}, []string{"70 evict a p taint"}},
	{"shorter than it is there", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.bear("p", bears("k", 1)) })
	}, []string{"50 evict a p taint"}},
	{"tainted later", func(w *world) {
		w.pod("p", "a")
		w.at(50*second, func() { w.taint("a", "k") })
	}, []string{"50 evict a p taint"}},
	{"one of two taints is borne", func(w *world) {
		w.pod("p", "a", bears("k", -1))
		w.taint("a", "k")
		w.at(50*second, func() { w.taint("a", "l") })
	}, []string{"50 evict a p taint"}},
	{"the taint goes", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(99*second, func() { w.untaint("a", "k") })
	}, []string{"99 cancel a p"}},
	{"the taint goes in the instant of the eviction", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(100*second, func() { w.untaint("a", "k") })
	}, []string{"100 cancel a p"}},
	{"the shorter of two, and what is left of it", func(w *world) {
		w.pod("p", "a", bears("k", 100), bears("l", 20))
		w.taint("a", "k")
		w.at(50*second, func() { w.taint("a", "l") })
		w.at(60*second, func() { w.untaint("a", "l") })
	}, []string{"100 evict a p taint"}},
	{"for ever, for a while, for ever", func(w *world) {
		w.pod("p", "a", bears("k", -1), bears("l", 20))
		w.taint("a", "k")
		w.at(50*second, func() { w.taint("a", "l") })
		w.at(60*second, func() { w.untaint("a", "l") })
	}, []string{"60 cancel a p"}},
	{"several pods", func(w *world) {
		w.pod("p1", "a", bears("k", 1))
		w.pod("p2", "a", bears("k", 50))
		w.pod("p3", "a")
		w.pod("p4", "a")
		w.at(5*second, func() { w.taint("a", "k") })
	}, []string{"5 evict a p3 taint", "5 evict a p4 taint", "6 evict a p1 taint", "55 evict a p2 taint"}},
	{"nobody knows since when", func(w *world) {
		w.pod("p", "a", bears("k", 20))
		w.at(5*second, func() {
			w.change("a", func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", time.Time{})} })
		})
	}, []string{"25 evict a p taint"}},
	{"the node's object goes", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.deleteNode("a") })
	}, []string{"50 cancel a p"}},
	{"a node of the same name comes", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() { w.deleteNode("a") })
		w.at(60*second, func() { w.node("a") })
		w.at(70*second, func() { w.taint("a", "k") })
	}, []string{"50 cancel a p", "170 evict a p taint"}},
	{"a pod of the same name comes", func(w *world) {
		w.taint("a", "k")
		w.pod("p", "a", bears("k", 100))
		w.at(50*second, func() {
			w.removePod("p", 0)
			w.podLike(model.Pod{Name: "p", UID: "another", Node: "a", Tolerations: []model.Toleration{bears("k", 100)}})
		})
	}, []string{"150 evict a p taint"}},
	{"the node is seen after its pod", func(w *world) {
		w.pod("p", "late", bears("k", 100))
		w.at(5*second, func() {
			w.node("late", func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", w.now)} })
		})
	}, []string{"105 evict late p taint"}},
	{"another effect", func(w *world) {
		w.pod("p", "a")
		w.change("a", func(n *model.Node) { n.Taints = []model.Taint{{Key: "k", Effect: model.NoSchedule}} })
	}, nil},
}

func TestWhenPodsGo(t *testing.T) {
	for _, c := range whenPodsGo {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.node("b")
			c.story(w)
			w.run(200 * second)
			w.expect("evict cancel", c.want...)
		})
	}
}

func (w *world) bear(uid string, tolerations ...model.Toleration) {
	w.changePod(uid, 0, func(p *model.Pod) { p.Tolerations = tolerations })
}

func TestTolerationsOfADeadNodesTaint(t *testing.T) {
	for seconds, want := range map[int64][]string{200: {"240 evict a p taint"}, 0: {"40 evict a p taint"}, -1: nil} {
		w := newWorld(t, taintMode())
		w.node("a")
		w.node("b")
		w.pod("p", "a", bears(model.KeyUnreachable, seconds))
		w.at(0, func() { w.stop("a") })
		w.run(300 * second)
		w.expect("evict", want...)
	}
}

func TestPodsOfADeadNodeAreMarked(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("ready", "a", usual(-1)...)
	w.podLike(model.Pod{Name: "unready", Node: "a", Tolerations: usual(-1)})
	w.podLike(model.Pod{Name: "finished", Node: "a", Tolerations: usual(-1), Ready: true, Finished: true})
	w.pod("elsewhere", "b", usual(-1)...)
	w.at(0, func() { w.stop("a") })
	w.at(50*second, func() { w.pod("late", "a", usual(-1)...) })
	// Its kubelet disagrees: marking once is enough.
	w.at(60*second, func() { w.changePod("ready", 0, func(p *model.Pod) { p.Ready = true }) })
	w.at(100*second, func() { w.resume("a") })
	w.at(110*second, func() { w.changePod("late", 0, func(p *model.Pod) { p.Ready = true }) })
	// The node's own reports are for its kubelet to handle, until it is silent again.
	w.at(200*second, func() { w.ready("a", model.False) })
	w.at(250*second, func() { w.stop("a") })
	w.run(300 * second)
	w.expect("pod-not-ready", "40 pod-not-ready a ready", "50 pod-not-ready a late", "280 pod-not-ready a late", "280 pod-not-ready a ready")
}

func TestAPodThatCouldNotBeMarkedIsMarkedLater(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a", usual(-1)...)
	w.at(0, func() { w.stop("a") })
	failed := 0
	w.faults = func(a *fleetAction) fault {
		if failed++; a.Kind == core.MarkNotReady && failed <= 5 {
			return fault{err: errFault}
		}
		return fault{}
	}
	w.run(300 * second)
	if lines := w.of("pod-not-ready"); len(lines) < 2 || w.pods["p"].Ready {
		t.Errorf("tried %v, ready %v", lines, w.pods["p"].Ready)
	}
}

func TestAnEvictionIsRepeatedUntilThePodIsGone(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.pod("p", "a")
	tries := 0
	w.faults = func(a *fleetAction) fault {
		if tries++; a.Kind == core.Evict && tries <= 4 {
			return fault{err: errFault}
		}
		return fault{}
	}
	w.at(0, func() { w.taint("a", "k") })
	w.run(300 * second)
	w.expect("evict cancel", "0 evict a p taint", "0.1 evict a p taint", "0.3 evict a p taint", "0.7 evict a p taint", "1.5 evict a p taint")
}

func TestAnEvictionThatFailedIsCalledOff(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.pod("p", "a")
	w.faults = func(*fleetAction) fault { return fault{err: errFault} }
	w.at(0, func() { w.taint("a", "k") })
	w.at(250*time.Millisecond, func() { w.untaint("a", "k") })
	w.run(300 * second)
	w.expect("evict cancel", "0 evict a p taint", "0.1 evict a p taint", "0.25 cancel a p")
}

func TestAnEvictionThatIsUnderWayIsNotCalledOff(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.pod("p", "a")
	w.faults = func(*fleetAction) fault { return fault{done: 5 * second, shown: 5 * second} }
	w.at(0, func() { w.taint("a", "k") })
	w.at(2*second, func() { w.untaint("a", "k") })
	w.run(100 * second)
	w.expect("evict cancel", "0 evict a p taint")
}

func TestADeletionThatLeavesNoTraceIsRepeated(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.podLike(model.Pod{Name: "p", Node: "a"})
	w.taint("a", "k")
	w.faults = func(a *fleetAction) fault { return fault{shown: 45 * second} }
	w.run(100 * second)
	w.expect("evict", "0 evict a p taint", "30 evict a p taint")
}

func TestPodsThatShareNothingButAMomentGoInTheOrderOfTheirNames(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	for _, i := range []int{3, 1, 2} {
		w.podLike(model.Pod{Name: fmt.Sprint("p", i), UID: fmt.Sprint(9 - i), Node: "a", Tolerations: []model.Toleration{bears("k", 10)}})
	}
	w.taint("a", "k")
	w.run(100 * second)
	w.expect("evict", "10 evict a p1 taint", "10 evict a p2 taint", "10 evict a p3 taint")
}
