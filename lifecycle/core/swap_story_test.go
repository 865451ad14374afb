package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// newSwap creates a node that changes from False to Unknown and back. Its pods tolerate one of
// the two taints without limit.
func newSwap(h *harness) {
	h.node("a")
	h.node("b")
	h.pod("unready-ok", "a", tolerates(model.KeyNotReady, -1), tolerates(model.KeyUnreachable, 30))
	h.pod("unreachable-ok", "a", tolerates(model.KeyUnreachable, -1), tolerates(model.KeyNotReady, 70))
	h.pod("both", "a", tolerates(model.KeyNotReady, 200), tolerates(model.KeyUnreachable, 100))
	h.pod("everything-but", "a", tolerates(model.KeyUnreachable, 35), tolerates("", -1))
	h.pod("updated", "a", defaultTolerations(300)...)
	h.at(10*second, func() { h.ready("a", model.False) })
	h.at(60*second, func() { h.ready("a", model.Unknown) })
	h.at(65*second, func() {
		h.setTolerations("updated", tolerates(model.KeyNotReady, -1), tolerates(model.KeyUnreachable, 20))
	})
	h.at(70*second, func() { h.pod("late", "a", tolerates(model.KeyNotReady, -1), tolerates(model.KeyUnreachable, 28)) })
	h.at(100*second, func() { h.ready("a", model.False) })
}

var evictedBySwap = []string{
	"80 evict a updated taint", "90 evict a unready-ok taint", "95 evict a everything-but taint", "98 evict a late taint",
	"170 evict a unreachable-ok taint", "210 evict a both taint",
}

func TestSwap_TimersRunFromTransition(t *testing.T) {
	h := newHarness(t, taintMode())
	newSwap(h)
	h.run(300 * second)
	h.expect("evict", evictedBySwap...)
	h.expect("cancel", "60 cancel a unreachable-ok")
}

// TestSwap_FailoverMovesNoTimer checks that a failover at any time leaves the deadlines of all
// pods unchanged.
func TestSwap_FailoverMovesNoTimer(t *testing.T) {
	for at := time.Duration(0); at < 220*second; at += 2*second + 500*time.Millisecond {
		h := newHarness(t, taintMode())
		newSwap(h)
		h.at(at, h.restart)
		h.run(300 * second)
		h.expect("evict", evictedBySwap...)
		if t.Failed() {
			t.Fatalf("failover at %s", at)
		}
	}
}

// TestSwap_FutureTransitionCountsFromObservation checks that a node's clock ahead of ours
// moves no timer: the transition counts from its observation.
func TestSwap_FutureTransitionCountsFromObservation(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.kubelets["a"].skew = time.Hour
	h.pod("p", "a", tolerates(model.KeyUnreachable, -1), tolerates(model.KeyNotReady, 70))
	h.at(10*second, func() { h.ready("a", model.Unknown) })
	h.at(60*second, func() { h.ready("a", model.False) })
	h.run(300 * second)
	h.expect("evict", "130 evict a p taint")
}

func TestMarkNotReady_OnlyForUnknownBySilence(t *testing.T) {
	for _, c := range []struct {
		name string
		node func(*harness)
		want []string
	}{
		{"True, then silent", func(h *harness) { h.node("a"); h.at(5*second, func() { h.stop("a") }) },
			[]string{"40 pod-not-ready a p"}},
		{"False, then silent", func(h *harness) {
			h.node("a")
			h.at(5*second, func() { h.ready("a", model.False) })
			h.at(20*second, func() { h.stop("a") })
		}, []string{"50 pod-not-ready a p"}},
		{"never reported", func(h *harness) { h.neverReporting("a") }, []string{"60 pod-not-ready a p"}},
		{"Unknown reported by the node", func(h *harness) { h.node("a"); h.at(5*second, func() { h.ready("a", model.Unknown) }) }, nil},
		{"Unknown reported by the node, then silent", func(h *harness) {
			h.node("a")
			h.at(5*second, func() { h.ready("a", model.Unknown) })
			h.at(15*second, func() { h.stop("a") })
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, failover := range []time.Duration{0, 25 * second, 80 * second} {
				h := newHarness(t, taintMode())
				c.node(h)
				h.node("b")
				h.pod("p", "a", defaultTolerations(-1)...)
				if failover > 0 {
					h.at(failover, h.restart)
				}
				h.run(200 * second)
				h.expect("pod-not-ready", c.want...)
			}
		})
	}
}

func TestMarkNotReady_MarksPodBoundAfterReportedUnknown(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("before", "a", defaultTolerations(-1)...)
	h.at(5*second, func() { h.ready("a", model.Unknown) })
	h.at(10*second, func() { h.pod("after", "a", defaultTolerations(-1)...) })
	h.at(20*second, h.restart)
	h.run(100 * second)
	h.expect("pod-not-ready", "10 pod-not-ready a after")
}
