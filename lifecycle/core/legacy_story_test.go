package core_test

import (
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestWithoutTaintsPodsGoWithTheirNode(t *testing.T) {
	w := newWorld(t, legacyMode())
	for _, n := range []string{"a", "b", "c", "d"} {
		w.node(n)
	}
	w.pod("web", "a")
	w.pod("forever", "a", usual(-1)...)
	w.podLike(model.Pod{Name: "daemon", Node: "a", Ready: true, Daemon: true})
	w.podLike(model.Pod{Name: "done", Node: "a", Finished: true})
	w.podLike(model.Pod{Name: "going", Node: "a", Deleting: true})
	w.pod("bare", "b")
	w.pod("web2", "c")
	w.at(30*second, func() { w.taint("b", "k") })
	w.at(30*second, func() { w.ready("c", model.False) })
	w.at(60*second, func() { w.stop("a") })
	w.at(400*second, func() { w.pod("late", "a") })
	w.at(500*second, func() { w.resume("a") })
	w.at(510*second, func() { w.pod("after", "a") })
	w.run(600 * second)
	w.expect("taint evict cancel",
		"30 taint c +not-ready:NoSchedule",
		"90 taint a +unreachable:NoSchedule",
		"330 evict c web2 node-lost",
		"350 evict a forever node-lost",
		"350 evict a web node-lost",
		"400 evict a late node-lost",
		"500 taint a -unreachable:NoSchedule")
	w.expect("pod-not-ready", "90 pod-not-ready a daemon", "90 pod-not-ready a forever", "90 pod-not-ready a web", "400 pod-not-ready a late")
}

func TestWithoutTaintsZonesKeepTheirRate(t *testing.T) {
	w := newWorld(t, legacyMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
		if i != 1 {
			w.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i))
		}
	}
	w.at(5*second, func() { w.stop("n0", "n1", "n2", "n3") })
	w.run(600 * second)
	// n1 has no pods: its turn costs nothing.
	w.expect("evict", "300 evict n0 p0 node-lost", "310 evict n2 p2 node-lost", "320 evict n3 p3 node-lost")
}

func TestWithoutTaintsAllFullStopsEvictions(t *testing.T) {
	w := newWorld(t, legacyMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a")
	w.pod("q", "b")
	w.at(5*second, func() { w.stop("a") })
	w.at(200*second, func() { w.stop("b") })
	w.at(700*second, func() { w.resume("b") })
	w.run(800 * second)
	w.expect("evict", "710 evict a p node-lost")
}

func TestAReturnBeforeTheTimeoutEvictsNobody(t *testing.T) {
	w := newWorld(t, legacyMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a")
	w.at(5*second, func() { w.stop("a") })
	w.at(299*second, func() { w.resume("a") })
	w.run(800 * second)
	w.expect("evict")
}

func TestWithoutTaintsFailedEvictionsAreRepeated(t *testing.T) {
	w := newWorld(t, legacyMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a")
	tries := 0
	w.faults = func(a *fleetAction) fault {
		if a.Kind == core.Evict {
			if tries++; tries < 3 {
				return fault{err: errFault}
			}
		}
		return fault{}
	}
	w.at(5*second, func() { w.stop("a") })
	w.run(600 * second)
	w.expect("evict", "300 evict a p node-lost", "300.1 evict a p node-lost", "300.3 evict a p node-lost")
	if n := len(w.of("event")); n != 4 {
		t.Errorf("told %v", w.of("event"))
	}
}

func TestTheMixedModes(t *testing.T) {
	story := func(w *world) {
		w.node("a")
		w.node("b")
		w.node("c")
		w.pod("p", "a", usual(60)...)
		w.pod("q", "b", bears("k", 20))
		w.at(5*second, func() { w.stop("a") })
		w.at(10*second, func() { w.taint("b", "k") })
		w.run(600 * second)
	}
	t.Run("taints of users, dead nodes after a timeout", func(t *testing.T) {
		w := newWorld(t, mixedMode())
		story(w)
		w.expect("taint evict", "30 evict b q taint", "40 taint a +unreachable:NoSchedule", "300 evict a p node-lost")
	})
	t.Run("taints that nobody acts on", func(t *testing.T) {
		p := taintMode()
		p.TaintEvictions = false
		w := newWorld(t, p)
		story(w)
		w.expect("taint evict", "40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute")
	})
}
