package core_test

import (
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestFleet_TaintsAndEvictsUnreachableNode(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("web", "a", defaultTolerations(300)...)
	h.pod("bare", "a")
	h.pod("forever", "a", defaultTolerations(-1)...)
	h.at(60*second, func() { h.stop("a") })
	h.run(600 * second)
	h.expect("condition taint pod-not-ready evict cancel zone",
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

func TestFleet_UntaintsReturningNode(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("web", "a", defaultTolerations(300)...)
	h.at(60*second, func() { h.stop("a") })
	h.at(200*second, func() { h.resume("a") })
	h.run(600 * second)
	h.expect("taint evict cancel",
		"90 taint a +unreachable:NoSchedule",
		"90 taint a +unreachable:NoExecute",
		"200 taint a -unreachable:NoSchedule",
		"200 taint a -unreachable:NoExecute",
		"200 cancel a web")
}

func TestTaint_SwapsNotReadyForUnreachable(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("web", "a", defaultTolerations(300)...)
	h.at(30*second, func() { h.ready("a", model.False) })
	h.at(60*second, func() { h.stop("a") })
	h.run(600 * second)
	h.expect("taint evict cancel",
		"30 taint a +not-ready:NoSchedule",
		"30 taint a +not-ready:NoExecute",
		"90 taint a +unreachable:NoSchedule",
		"90 taint a +unreachable:NoExecute",
		"90 taint a -not-ready:NoSchedule",
		"90 taint a -not-ready:NoExecute",
		"330 evict a web taint")
}

// TestAct_DecidesTaintsBeforeEvictions checks that taints are decided before evictions: the new
// taint counts at once.
func TestAct_DecidesTaintsBeforeEvictions(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a", tolerates(model.KeyNotReady, 60), tolerates(model.KeyUnreachable, -1))
	h.at(30*second, func() { h.ready("a", model.False) })
	h.at(60*second, func() { h.stop("a") })
	h.run(600 * second)
	h.expect("evict cancel", "90 cancel a p")
}
