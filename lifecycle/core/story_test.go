package core_test

import (
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestDeadNode(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("web", "a", usual(300)...)
	w.pod("bare", "a")
	w.pod("forever", "a", usual(-1)...)
	w.at(60*second, func() { w.stop("a") })
	w.run(600 * second)
	w.expect("condition taint pod-not-ready evict cancel zone",
		"0 zone r/z Normal 0.1",
		"90 condition a Ready NodeStatusUnknown",
		"90 condition a MemoryPressure NodeStatusUnknown",
		"90 condition a DiskPressure NodeStatusUnknown",
		"90 condition a PIDPressure NodeStatusUnknown",
		"90 taint a +unreachable:NoSchedule",
		"90 taint a +unreachable:NoExecute",
		"90 pod-not-ready a bare",
		"90 pod-not-ready a forever",
		"90 pod-not-ready a web",
		"90 evict a bare taint",
		"390 evict a web taint")
}

func TestDeadNodeReturns(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("web", "a", usual(300)...)
	w.at(60*second, func() { w.stop("a") })
	w.at(200*second, func() { w.resume("a") })
	w.run(600 * second)
	w.expect("taint evict cancel",
		"90 taint a +unreachable:NoSchedule",
		"90 taint a +unreachable:NoExecute",
		"200 taint a -unreachable:NoSchedule",
		"200 taint a -unreachable:NoExecute",
		"200 cancel a web")
}

func TestNotReadyThenSilent(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("web", "a", usual(300)...)
	w.at(30*second, func() { w.ready("a", model.False) })
	w.at(60*second, func() { w.stop("a") })
	w.run(600 * second)
	w.expect("taint evict cancel",
		"30 taint a +not-ready:NoSchedule",
		"30 taint a +not-ready:NoExecute",
		"90 taint a +unreachable:NoSchedule",
		"90 taint a +unreachable:NoExecute",
		"90 taint a -not-ready:NoSchedule",
		"90 taint a -not-ready:NoExecute",
		"330 evict a web taint")
}

// TestASwapInTheInstantOfAnEviction checks that taints are decided before evictions: in the
// instant of a swap the new taint counts.
func TestASwapInTheInstantOfAnEviction(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a", bears(model.KeyNotReady, 60), bears(model.KeyUnreachable, -1))
	w.at(30*second, func() { w.ready("a", model.False) })
	w.at(60*second, func() { w.stop("a") })
	w.run(600 * second)
	w.expect("evict cancel", "90 cancel a p")
}
