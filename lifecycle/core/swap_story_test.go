package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// aSwap is a node that changes from False to Unknown and back, with pods that tolerate one of
// the two taints without limit.
func aSwap(w *world) {
	w.node("a")
	w.node("b")
	w.pod("unready-ok", "a", bears(model.KeyNotReady, -1), bears(model.KeyUnreachable, 30))
	w.pod("unreachable-ok", "a", bears(model.KeyUnreachable, -1), bears(model.KeyNotReady, 70))
	w.pod("both", "a", bears(model.KeyNotReady, 200), bears(model.KeyUnreachable, 100))
	w.pod("everything-but", "a", bears(model.KeyUnreachable, 35), bears("", -1))
	w.pod("updated", "a", usual(300)...)
	w.at(10*second, func() { w.ready("a", model.False) })
	w.at(60*second, func() { w.ready("a", model.Unknown) })
	w.at(65*second, func() { w.bear("updated", bears(model.KeyNotReady, -1), bears(model.KeyUnreachable, 20)) })
	w.at(70*second, func() { w.pod("late", "a", bears(model.KeyNotReady, -1), bears(model.KeyUnreachable, 28)) })
	w.at(100*second, func() { w.ready("a", model.False) })
}

var evictedBySwap = []string{
	"80 evict a updated taint", "90 evict a unready-ok taint", "95 evict a everything-but taint", "98 evict a late taint",
	"170 evict a unreachable-ok taint", "210 evict a both taint",
}

func TestSwap_TimersRunFromTheTransition(t *testing.T) {
	w := newWorld(t, taintMode())
	aSwap(w)
	w.run(300 * second)
	w.expect("evict", evictedBySwap...)
	w.expect("cancel", "60 cancel a unreachable-ok")
}

// TestSwap_AFailoverMovesNoTimer checks that a failover at any time leaves the deadlines of all
// pods unchanged.
func TestSwap_AFailoverMovesNoTimer(t *testing.T) {
	for at := time.Duration(0); at < 220*second; at += 2*second + 500*time.Millisecond {
		w := newWorld(t, taintMode())
		aSwap(w)
		w.at(at, w.restart)
		w.run(300 * second)
		w.expect("evict", evictedBySwap...)
		if t.Failed() {
			t.Fatalf("with a failover at %s", at)
		}
	}
}

// TestSwap_AClockThatIsAheadCountsFromWhenItWasSeen checks that a node's clock ahead of ours
// moves no timer: the transition counts from its observation.
func TestSwap_AClockThatIsAheadCountsFromWhenItWasSeen(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.beats["a"].skew = time.Hour
	w.pod("p", "a", bears(model.KeyUnreachable, -1), bears(model.KeyNotReady, 70))
	w.at(10*second, func() { w.ready("a", model.Unknown) })
	w.at(60*second, func() { w.ready("a", model.False) })
	w.run(300 * second)
	w.expect("evict", "130 evict a p taint")
}

func TestMark_WhateverReadyWasBefore(t *testing.T) {
	for _, c := range []struct {
		name string
		node func(*world)
		want []string
	}{
		{"it was True", func(w *world) { w.node("a"); w.at(5*second, func() { w.stop("a") }) },
			[]string{"40 pod-not-ready a p"}},
		{"it was False", func(w *world) {
			w.node("a")
			w.at(5*second, func() { w.ready("a", model.False) })
			w.at(20*second, func() { w.stop("a") })
		}, []string{"50 pod-not-ready a p"}},
		{"it was never there", func(w *world) { w.silentFromBirth("a") }, []string{"60 pod-not-ready a p"}},
		{"it reports Unknown itself", func(w *world) { w.node("a"); w.at(5*second, func() { w.ready("a", model.Unknown) }) }, nil},
		{"and is silent then", func(w *world) {
			w.node("a")
			w.at(5*second, func() { w.ready("a", model.Unknown) })
			w.at(15*second, func() { w.stop("a") })
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, failover := range []time.Duration{0, 25 * second, 80 * second} {
				w := newWorld(t, taintMode())
				c.node(w)
				w.node("b")
				w.pod("p", "a", usual(-1)...)
				if failover > 0 {
					w.at(failover, w.restart)
				}
				w.run(200 * second)
				w.expect("pod-not-ready", c.want...)
			}
		})
	}
}

func TestMark_BoundToANodeThatReportsUnknown(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("before", "a", usual(-1)...)
	w.at(5*second, func() { w.ready("a", model.Unknown) })
	w.at(10*second, func() { w.pod("after", "a", usual(-1)...) })
	w.at(20*second, w.restart)
	w.run(100 * second)
	w.expect("pod-not-ready", "10 pod-not-ready a after")
}
