package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// cleaning is a policy that keeps the objects of evicted pods for five minutes.
func cleaning() core.Policy {
	p := taintMode()
	p.EvictedPodTTL = 5 * minute
	return p
}

// agentEvicts evicts a pod as its node's agent does.
func (w *world) agentEvicts(uid string) {
	now := w.now
	w.changePod(uid, 0, func(p *model.Pod) { p.Finished, p.Ready, p.Evicted = true, false, &now })
}

func TestAnEvictedPodIsKeptForAWhile(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy core.Policy
		do     func(w *world) // at 100 s
		want   []string
	}{
		{"and deleted after it", cleaning(), func(w *world) { w.agentEvicts("web") }, []string{"400 delete-evicted-pod a web"}},
		{"for ever, if nobody says how long", taintMode(), func(w *world) { w.agentEvicts("web") }, nil},
		{"for ever, if it only failed", cleaning(), func(w *world) {
			w.changePod("web", 0, func(p *model.Pod) { p.Finished, p.Ready = true, false })
		}, nil},
		{"however often it changes", cleaning(), func(w *world) {
			w.agentEvicts("web")
			for after := second; after < 5*minute; after += 20 * second {
				w.at(100*second+after, func() { w.changePod("web", 0, func(*model.Pod) {}) })
			}
		}, []string{"400 delete-evicted-pod a web"}},
		{"however often the controller fails over", cleaning(), func(w *world) {
			w.agentEvicts("web")
			for after := second; after < 5*minute; after += 30 * second {
				w.at(100*second+after, w.restart)
			}
		}, []string{"400 delete-evicted-pod a web"}},
		{"whatever becomes of its node", cleaning(), func(w *world) {
			w.agentEvicts("web")
			w.at(150*second, func() { w.deleteNode("a") })
		}, []string{"400 delete-evicted-pod a web"}},
		{"and not deleted if somebody takes the mark away", cleaning(), func(w *world) {
			w.agentEvicts("web")
			w.at(399*second, func() { w.changePod("web", 0, func(p *model.Pod) { p.Evicted = nil }) })
		}, nil},
		{"and not deleted twice", cleaning(), func(w *world) {
			w.agentEvicts("web")
			w.at(399*second, func() { w.changePod("web", 0, func(p *model.Pod) { p.Deleting = true }) })
		}, nil},
		{"and no other pod of the name is deleted", cleaning(), func(w *world) {
			w.agentEvicts("web")
			w.at(399*second, func() {
				w.removePod("web", 0)
				w.podLike(model.Pod{Name: "web", UID: "web-2", Node: "a"})
			})
		}, nil},
		{"and deleted by a new controller at once, if it is late by then", cleaning(), func(w *world) {
			w.agentEvicts("web")
			w.at(200*second, func() { w.fleet.StopLeading(w.now) })
			w.at(500*second, func() { w.fleet.Lead(w.now, w.now) })
		}, []string{"500 delete-evicted-pod a web"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.policy)
			w.node("a")
			w.node("b")
			w.pod("web", "a")
			w.pod("other", "a")
			w.at(100*second, func() { c.do(w) })
			w.run(20 * minute)
			w.expect("delete-evicted-pod", c.want...)
			w.expect("evict cancel")
		})
	}
}

func TestADeleteThatFailsIsTriedAgainEverMoreSlowly(t *testing.T) {
	w := newWorld(t, cleaning())
	w.node("a")
	w.node("b")
	w.pod("web", "a")
	w.at(100*second, func() { w.agentEvicts("web") })
	w.faults = func(a *core.Action) (f fault) {
		if a.Kind == core.DeleteEvictedPod && w.now.Before(at(20*minute)) {
			f.err = errFault
		}
		return f
	}
	w.run(2 * time.Hour)
	w.expect("delete-evicted-pod", "400 delete-evicted-pod a web", "410 delete-evicted-pod a web", "430 delete-evicted-pod a web", "470 delete-evicted-pod a web",
		"550 delete-evicted-pod a web", "710 delete-evicted-pod a web", "1030 delete-evicted-pod a web", "1630 delete-evicted-pod a web")
}

// TestNoEvictedPodIsDeletedUnseen covers an API server without answers: the known state may be
// outdated, because the mark may have been removed.
func TestNoEvictedPodIsDeletedUnseen(t *testing.T) {
	p := cleaning()
	p.Evidence.LiveReads = true
	w := newWorld(t, p)
	w.node("a")
	w.pod("web", "a")
	w.pod("late", "a")
	cut := false
	w.lossy = func() bool { return cut }
	w.reads = func(string) error {
		if cut {
			return errFault
		}
		return nil
	}
	w.at(100*second, func() { w.agentEvicts("web") })
	w.at(300*second, func() { w.agentEvicts("late") })
	w.at(395*second, func() { cut = true; w.fleet.Unreachable(w.now) })
	w.at(495*second, func() { cut = false })
	w.run(20 * minute)
	// A live read succeeds at 495 s, and all pods have 40 s after that.
	w.expect("delete-evicted-pod", "535 delete-evicted-pod a web", "600 delete-evicted-pod a late")
}

// TestADeleteThatWaitsIsCalledOff checks that a waiting delete becomes obsolete if the pod must
// not be deleted any more.
func TestADeleteThatWaitsIsCalledOff(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(w *world)
		gone    bool
	}{
		"nothing happens":     {func(*world) {}, true},
		"the mark is taken":   {func(w *world) { w.changePod("web", 0, func(p *model.Pod) { p.Evicted = nil }) }, false},
		"somebody deletes it": {func(w *world) { w.changePod("web", 0, func(p *model.Pod) { p.Deleting = true }) }, false},
		"it is marked anew":   {func(w *world) { w.agentEvicts("web") }, false},
		"nobody sees":         {func(w *world) { w.fleet.Unreachable(w.now) }, false},
		"another leads":       {func(w *world) { w.fleet.StopLeading(w.now) }, false},
	} {
		w := newWorld(t, cleaning())
		w.policy.Evidence.Outage = minute
		w.node("a")
		w.pod("web", "a")
		w.faults = func(*core.Action) fault { return fault{carried: 3 * second} }
		w.at(100*second, func() { w.agentEvicts("web") })
		w.at(402*second, func() { c.happens(w) })
		w.run(404 * second)
		w.expect("delete-evicted-pod", "400 delete-evicted-pod a web")
		if gone := w.pods["web"] == nil; gone != c.gone {
			t.Errorf("%s: the pod is gone: %v", name, gone)
		}
	}
}
