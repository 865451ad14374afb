package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestWhatAnAgentAskedForIsDone(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.agent("a")
	tries := 0
	w.faults = func(a *fleetAction) fault {
		if tries++; a.Kind == core.SoftEvict && tries == 1 {
			return fault{err: errFault}
		}
		return fault{}
	}
	w.at(5*second, func() {
		w.podLike(model.Pod{Name: "p", Node: "a", Asked: &model.Request{Cause: "memory.available", GraceSeconds: 30, Since: w.now}})
	})
	w.run(39 * second)
	w.expect("soft-evict", "5 soft-evict a p", "15 soft-evict a p")
}

func TestWhatADeadAgentLeftIsCleared(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a", func(n *model.Node) { n.Pressures = []string{"plimsoll.dev/MemoryStall"} })
	w.agent("a")
	w.run(100 * second)
	w.expect("cleanup-agent", "40 cleanup-agent a")
}

func TestOvertakenActions(t *testing.T) {
	resumed := func(w *world) { w.resume("a") }
	for _, c := range []struct {
		name string
		kind core.Kind
		then func(w *world)
		want bool
	}{
		{"nothing happened", core.MarkUnknown, func(*world) {}, false},
		{"nothing happened", core.Taint, func(*world) {}, false},
		{"nothing happened", core.MarkNotReady, func(*world) {}, false},
		{"nothing happened", core.Evict, func(*world) {}, false},
		{"the node is back", core.MarkUnknown, resumed, true},
		{"the node is back", core.Taint, resumed, true},
		{"the node is back", core.MarkNotReady, resumed, true},
		{"its lease is renewed", core.Taint, func(w *world) { w.fleet.Renewed("a", w.now.Add(time.Hour), w.now, w.now) }, true},
		{"the node is gone", core.MarkUnknown, func(w *world) { w.deleteNode("a") }, true},
		{"the node is gone", core.Taint, func(w *world) { w.deleteNode("a") }, true},
		{"the pod is gone", core.MarkNotReady, func(w *world) { w.removePod("p", 0) }, true},
		{"the pod is gone", core.Evict, func(w *world) { w.removePod("q", 0) }, true},
		{"the taint is gone", core.Evict, func(w *world) { w.untaint("b", "k") }, true},
		{"another leads", core.Taint, func(w *world) { w.fleet.StopLeading(w.now) }, true},
	} {
		t.Run(c.kind.String()+": "+c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.node("b")
			w.pod("p", "a", usual(100)...)
			w.pod("q", "b")
			w.faults = func(*fleetAction) fault { return fault{carried: time.Hour} }
			var waiting []*core.Action
			w.check = func(a *core.Action) {
				if a.Kind == c.kind {
					waiting = append(waiting, a)
				}
			}
			w.at(5*second, func() { w.stop("a") })
			w.at(40*second, func() { w.taint("b", "k") })
			w.run(42 * second)
			c.then(w)
			if len(waiting) != 1 || w.fleet.Obsolete(waiting[0], w.now) != c.want {
				t.Errorf("%d actions wait; overtaken is not %v", len(waiting), c.want)
			}
		})
	}
}

// TestPodsOfANodeThatIsBackAreSpared covers a node back before its taint is removed:
// pods waiting for eviction stay. A user's taint has no such exception.
func TestPodsOfANodeThatIsBackAreSpared(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world)
		then func(w *world)
		want bool
	}{
		{"it fell silent", func(w *world) { w.stop("a") }, func(w *world) { w.resume("a") }, true},
		{"it fell silent, and its lease is renewed", func(w *world) { w.stop("a") },
			func(w *world) { w.fleet.Renewed("a", w.now.Add(time.Hour), w.now, w.now) }, true},
		{"it was not ready", func(w *world) { w.ready("a", model.False) }, func(w *world) { w.ready("a", model.True) }, true},
		{"it is not ready still", func(w *world) { w.ready("a", model.False) }, func(*world) {}, false},
		{"it fell silent, and is not ready", func(w *world) { w.stop("a") }, func(w *world) { w.ready("a", model.False) }, false},
		{"a user's taint", func(w *world) { w.stop("a"); w.taint("a", "k") }, func(w *world) { w.resume("a") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.node("b")
			w.pod("p", "a")
			var waiting *core.Action
			w.faults = func(a *fleetAction) fault {
				if waiting == nil && a.Kind == core.Evict {
					waiting = a
				}
				if waiting != nil {
					return fault{carried: time.Hour}
				}
				return fault{}
			}
			w.at(5*second, func() { c.do(w) })
			w.run(42 * second)
			c.then(w)
			if waiting == nil || w.fleet.Obsolete(waiting, w.now) != c.want {
				t.Fatalf("%+v waits; overtaken is not %v", waiting, c.want)
			}
			if w.settle(); w.fleet.Obsolete(waiting, w.now) != c.want { // the taint is being removed
				t.Errorf("while taints are written overtaken is not %v", c.want)
			}
		})
	}
}

func TestExplanations(t *testing.T) {
	w := newWorld(t, taintMode())
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		w.node(n)
	}
	w.pod("p", "a", usual(300)...)
	w.at(5*second, func() { w.stop("a", "b", "c") })
	w.at(45*second, func() { w.resume("c") })
	w.run(47 * second)
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
		e := w.fleet.Explain(c.node, w.now)
		if !e.Known || !e.Leads || e.Health != c.verdict || e.Next != c.next || e.Queued != c.queued {
			t.Errorf("%+v", e)
		}
	}
	if e := w.fleet.Explain("b", w.now); e.Ahead != 1 || !e.LastSign.Equal(at(0)) || !e.Silent.Equal(at(40*second)) {
		t.Errorf("%+v", e)
	}
	if e := w.fleet.Explain("a", w.now); !e.Turn.Equal(at(55 * second)) {
		t.Errorf("the turn of a comes at %v", e.Turn.Sub(start))
	}
	if e := w.fleet.Explain("b", w.now); !e.Turn.Equal(at(65 * second)) {
		t.Errorf("the turn of b comes at %v", e.Turn.Sub(start))
	}
	w.run(60 * second)
	if e := w.fleet.Explain("a", w.now); !e.NextPod.Equal(at(355*second)) || e.Pods != 1 {
		t.Errorf("%+v", e)
	}
	if e := w.fleet.Explain("nobody", w.now); e.Known {
		t.Errorf("%+v", e)
	}
}
