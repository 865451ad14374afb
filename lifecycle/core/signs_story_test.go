package core_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// bornLongAgo makes a node one hour old, without any heartbeat.
func bornLongAgo(n *model.Node) { n.Created = n.Created.Add(-time.Hour) }

// leaseOnly makes a node that never reported renew its lease from now on.
func (w *world) leaseOnly(name string) {
	w.beats[name].lease = true
	w.renewLease(name, w.beats[name].life)
}

// TestTwoSignsOfLife checks that either status or lease suffices as a heartbeat.
func TestTwoSignsOfLife(t *testing.T) {
	const never = "NodeStatusNeverUpdated"
	report := func(w *world) {
		for s := 0; s < 250; s += 30 {
			w.at(seconds(s), func() { w.report("a", func(*model.Node) {}) })
		}
	}
	for _, c := range []struct {
		name  string
		story func(w *world)
		until int // seconds
		want  []string
	}{
		{"new, without either", func(w *world) { w.silentFromBirth("a") }, 60, nil},
		{"new, with a lease", func(w *world) { w.silentFromBirth("a"); w.leaseOnly("a") }, 250, nil},
		{"old, without either", func(w *world) { w.silentFromBirth("a", bornLongAgo) }, 250, fourUnknown("10", "a", never)},
		{"old, with a lease", func(w *world) { w.silentFromBirth("a", bornLongAgo); w.leaseOnly("a") }, 250, nil},
		{"old, with a lease that ran out", func(w *world) {
			w.silentFromBirth("a", bornLongAgo)
			w.leases["a"] = w.now.Add(-time.Minute)
			w.fleet.Renewed("a", w.leases["a"], w.now, w.now)
		}, 250, fourUnknown("10", "a", never)},
		{"an old status, and a lease", func(w *world) {
			w.node("a")
			w.beats["a"].status = false
		}, 250, nil},
		{"a status, and a lease that ran out", func(w *world) {
			w.node("a")
			w.beats["a"].lease = false
			report(w)
		}, 250, nil},
		{"both ran out", func(w *world) {
			w.node("a")
			w.at(0, func() { w.stop("a") })
		}, 250, fourUnknown("40", "a", unknown)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("other")
			c.story(w)
			w.pod("p", "a", usual(-1)...)
			w.run(seconds(c.until))
			w.expect("condition", c.want...)
			if marked := len(w.of("pod-not-ready")) == 1; marked != (c.want != nil) {
				t.Errorf("marks of its pod: %v", w.of("pod-not-ready"))
			}
		})
	}
}

// TestTheLastWordCountsUntilTheGraceIsOver checks that a node's last report remains valid until
// its grace period ends.
func TestTheLastWordCountsUntilTheGraceIsOver(t *testing.T) {
	for said, c := range map[model.Status]struct {
		dies int
		want func(at string) []string
	}{
		model.True:    {40, func(at string) []string { return fourUnknown(at, "a", unknown) }},
		model.False:   {40, func(at string) []string { return fourUnknown(at, "a", unknown) }},
		model.Unknown: {40, func(at string) []string { return fourUnknown(at, "a", unknown)[1:] }}, // Ready is Unknown already
		model.Absent:  {60, func(at string) []string { return fourUnknown(at, "a", "NodeStatusNeverUpdated") }},
	} {
		t.Run(said.String(), func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("other")
			w.node("a", func(n *model.Node) {
				if n.Conditions[model.Ready].Status = said; said == model.Absent {
					n.Conditions = [model.ConditionTypes]model.Condition{}
				}
			})
			w.at(0, func() { w.stop("a") })
			w.run(seconds(c.dies))
			w.expect("condition")
			w.run(seconds(c.dies + 1))
			w.expect("condition", c.want(fmt.Sprint(c.dies))...)
		})
	}
}

func TestADeadNodeDiesAgain(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.at(5*second, func() { w.stop("a") })
	w.at(100*second, func() { w.resume("a") })
	w.at(105*second, func() { w.stop("a") })
	w.run(200 * second)
	w.expectNoExecute("40 a", "140 a")
}

// TestASwapWaitsForNobody checks that a node that exchanges one taint for the other already has
// its token. It waits for none, and takes none from other nodes.
func TestASwapWaitsForNobody(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprint("n", i))
	}
	w.pod("p", "n0", usual(300)...)
	w.at(0, func() { w.stop("n0", "n1", "n2") })
	w.at(45*second, func() { w.ready("n0", model.False) })
	w.run(80 * second)
	w.expectNoExecute("40 n0", "45 n0", "50 n1", "60 n2")
	w.run(400 * second)
	w.expect("evict cancel", "340 evict n0 p taint")
}

func TestPodsThatAreBoundLater(t *testing.T) {
	for _, c := range []struct {
		name, node string
		want       []string
	}{
		{"to a node that nobody knows", "nowhere", nil},
		{"to one that is ready", "up", nil},
		{"to one that has not reported yet", "young", nil},
		{"to one that says it is not ready", "faulty", nil},
		{"to one that is silent", "silent", []string{"50 pod-not-ready silent p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			for _, name := range []string{"up", "faulty", "silent"} {
				w.node(name)
			}
			w.at(5*second, func() { w.stop("silent") })
			w.at(5*second, func() { w.ready("faulty", model.False) })
			w.at(40*second, func() { w.silentFromBirth("young") })
			w.at(50*second, func() { w.pod("p", c.node, usual(-1)...) })
			w.run(90 * second)
			w.expect("pod-not-ready", c.want...)
		})
	}
}

// TestMarksWaitForNobody checks that all pods of all nodes that die at once are marked
// immediately, without waiting for a node's turn.
func TestMarksWaitForNobody(t *testing.T) {
	w := newWorld(t, taintMode())
	const dying, each = 40, 5
	for i := range 2 * dying {
		w.node(fmt.Sprint("n", i))
	}
	w.at(5*second, func() {
		for i := range dying {
			for p := range each {
				w.pod(fmt.Sprintf("p%d-%d", i, p), fmt.Sprint("n", i), usual(-1)...)
			}
			w.stop(fmt.Sprint("n", i))
		}
	})
	w.run(41 * second)
	if n := len(w.of("pod-not-ready")); n != dying*each {
		t.Errorf("of %d pods %d were marked", dying*each, n)
	}
	w.expectNoExecute("40 n0")
}
