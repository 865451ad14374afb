package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestSoftEvict_RetriesAgentRequest(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.agent("a")
	tries := 0
	h.faults = func(a *fleetAction) fault {
		if tries++; a.Kind == core.SoftEvict && tries == 1 {
			return fault{err: errFault}
		}
		return fault{}
	}
	h.at(5*second, func() {
		h.podLike(model.Pod{Name: "p", Node: "a", Requested: &model.Request{Cause: "memory.available", GraceSeconds: 30, Since: h.now}})
	})
	h.run(39 * second)
	h.expect("soft-evict", "5 soft-evict a p", "15 soft-evict a p")
}

func TestCleanUpAgent_AfterAgentLoss(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a", func(n *model.Node) { n.Pressures = []string{"plimsoll.dev/MemoryStall"} })
	h.agent("a")
	h.run(100 * second)
	h.expect("cleanup-agent", "40 cleanup-agent a")
}

func TestObsolete_DetectsOutdatedActions(t *testing.T) {
	resumed := func(h *harness) { h.resume("a") }
	for _, c := range []struct {
		name string
		kind core.Kind
		then func(h *harness)
		want bool
	}{
		{"no change", core.MarkUnknown, func(*harness) {}, false},
		{"no change", core.Taint, func(*harness) {}, false},
		{"no change", core.MarkNotReady, func(*harness) {}, false},
		{"no change", core.Evict, func(*harness) {}, false},
		{"node returned", core.MarkUnknown, resumed, true},
		{"node returned", core.Taint, resumed, true},
		{"node returned", core.MarkNotReady, resumed, true},
		{"lease renewed", core.Taint, func(h *harness) { h.fleet.Renewed("a", h.now.Add(time.Hour), h.now, h.now) }, true},
		{"node deleted", core.MarkUnknown, func(h *harness) { h.deleteNode("a") }, true},
		{"node deleted", core.Taint, func(h *harness) { h.deleteNode("a") }, true},
		{"pod deleted", core.MarkNotReady, func(h *harness) { h.removePod("p", 0) }, true},
		{"pod deleted", core.Evict, func(h *harness) { h.removePod("q", 0) }, true},
		{"taint removed", core.Evict, func(h *harness) { h.untaint("b", "k") }, true},
		{"leadership lost", core.Taint, func(h *harness) { h.fleet.StopLeading(h.now) }, true},
	} {
		t.Run(c.kind.String()+": "+c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.node("b")
			h.pod("p", "a", defaultTolerations(100)...)
			h.pod("q", "b")
			h.faults = func(*fleetAction) fault { return fault{carried: time.Hour} }
			var waiting []*core.Action
			h.check = func(a *core.Action) {
				if a.Kind == c.kind {
					waiting = append(waiting, a)
				}
			}
			h.at(5*second, func() { h.stop("a") })
			h.at(40*second, func() { h.taint("b", "k") })
			h.run(42 * second)
			c.then(h)
			if len(waiting) != 1 || h.fleet.Obsolete(waiting[0], h.now) != c.want {
				t.Errorf("got %d actions, want one with Obsolete %v", len(waiting), c.want)
			}
		})
	}
}

// TestObsolete_CoversEvictionsOfReturnedNode covers a node back before its taint is removed:
// pods waiting for eviction stay. A user's taint has no such exception.
func TestObsolete_CoversEvictionsOfReturnedNode(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(h *harness)
		then func(h *harness)
		want bool
	}{
		{"silent node returned", func(h *harness) { h.stop("a") }, func(h *harness) { h.resume("a") }, true},
		{"silent node with a renewed lease", func(h *harness) { h.stop("a") },
			func(h *harness) { h.fleet.Renewed("a", h.now.Add(time.Hour), h.now, h.now) }, true},
		{"unready node returned", func(h *harness) { h.ready("a", model.False) }, func(h *harness) { h.ready("a", model.True) }, true},
		{"node still not ready", func(h *harness) { h.ready("a", model.False) }, func(*harness) {}, false},
		{"silent node that reports not ready", func(h *harness) { h.stop("a") }, func(h *harness) { h.ready("a", model.False) }, false},
		{"taint of a user", func(h *harness) { h.stop("a"); h.taint("a", "k") }, func(h *harness) { h.resume("a") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.node("b")
			h.pod("p", "a")
			var waiting *core.Action
			h.faults = func(a *fleetAction) fault {
				if waiting == nil && a.Kind == core.Evict {
					waiting = a
				}
				if waiting != nil {
					return fault{carried: time.Hour}
				}
				return fault{}
			}
			h.at(5*second, func() { c.do(h) })
			h.run(42 * second)
			c.then(h)
			if waiting == nil || h.fleet.Obsolete(waiting, h.now) != c.want {
				t.Fatalf("got action %+v, want one with Obsolete %v", waiting, c.want)
			}
			if h.settle(); h.fleet.Obsolete(waiting, h.now) != c.want { // the taint is being removed
				t.Errorf("Obsolete: got %v while taints are written, want %v", !c.want, c.want)
			}
		})
	}
}

func TestExplain_ReportsStateAndNextStep(t *testing.T) {
	h := newHarness(t, taintMode())
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		h.node(n)
	}
	h.pod("p", "a", defaultTolerations(300)...)
	h.at(5*second, func() { h.stop("a", "b", "c") })
	h.at(45*second, func() { h.resume("c") })
	h.run(47 * second)
	for _, c := range []struct {
		node    string
		verdict core.Health
		next    string
		queued  bool
	}{
		{"a", core.Unreachable, "it is tainted node.kubernetes.io/unreachable:NoExecute", true},
		{"b", core.Unreachable, "it is tainted node.kubernetes.io/unreachable:NoExecute", true},
		{"c", core.Healthy, "", false},
	} {
		e := h.fleet.Explain(c.node, h.now)
		if !e.Known || !e.Leads || e.Health != c.verdict || e.Next != c.next || e.Queued != c.queued {
			t.Errorf("%+v", e)
		}
	}
	if e := h.fleet.Explain("b", h.now); e.QueuePosition != 1 || !e.LastHeartbeat.Equal(at(0)) || !e.GraceEnds.Equal(at(40*second)) {
		t.Errorf("%+v", e)
	}
	if e := h.fleet.Explain("a", h.now); !e.ExpectedTaint.Equal(at(55 * second)) {
		t.Errorf("Turn of a: got %v, want 55s", e.ExpectedTaint.Sub(start))
	}
	if e := h.fleet.Explain("b", h.now); !e.ExpectedTaint.Equal(at(65 * second)) {
		t.Errorf("Turn of b: got %v, want 65s", e.ExpectedTaint.Sub(start))
	}
	h.run(60 * second)
	if e := h.fleet.Explain("a", h.now); !e.NextPod.Equal(at(355*second)) || e.Pods != 1 {
		t.Errorf("%+v", e)
	}
	if e := h.fleet.Explain("missing", h.now); e.Known {
		t.Errorf("%+v", e)
	}
}
