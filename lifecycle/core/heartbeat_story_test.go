package core_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// createdLongAgo makes a node one hour old, without any heartbeat.
func createdLongAgo(n *model.Node) { n.Created = n.Created.Add(-time.Hour) }

// leaseOnly makes a node that never reported renew its lease from now on.
func (h *harness) leaseOnly(name string) {
	h.kubelets[name].lease = true
	h.renewLease(name, h.kubelets[name].generation)
}

// TestFleet_AcceptsStatusOrLeaseAsHeartbeat checks that either status or lease suffices as a
// heartbeat.
func TestFleet_AcceptsStatusOrLeaseAsHeartbeat(t *testing.T) {
	const never = "NodeStatusNeverUpdated"
	report := func(h *harness) {
		for s := 0; s < 250; s += 30 {
			h.at(seconds(s), func() { h.report("a", func(*model.Node) {}) })
		}
	}
	for _, c := range []struct {
		name     string
		scenario func(h *harness)
		until    int // seconds
		want     []string
	}{
		{"new node, no heartbeat", func(h *harness) { h.neverReporting("a") }, 60, nil},
		{"new node, renewed lease", func(h *harness) { h.neverReporting("a"); h.leaseOnly("a") }, 250, nil},
		{"old node, no heartbeat", func(h *harness) { h.neverReporting("a", createdLongAgo) }, 250, fourUnknown("10", "a", never)},
		{"old node, renewed lease", func(h *harness) { h.neverReporting("a", createdLongAgo); h.leaseOnly("a") }, 250, nil},
		{"old node, expired lease", func(h *harness) {
			h.neverReporting("a", createdLongAgo)
			h.leases["a"] = h.now.Add(-time.Minute)
			h.fleet.Renewed("a", h.leases["a"], h.now, h.now)
		}, 250, fourUnknown("10", "a", never)},
		{"old status, renewed lease", func(h *harness) {
			h.node("a")
			h.kubelets["a"].status = false
		}, 250, nil},
		{"renewed status, expired lease", func(h *harness) {
			h.node("a")
			h.kubelets["a"].lease = false
			report(h)
		}, 250, nil},
		{"expired status and lease", func(h *harness) {
			h.node("a")
			h.at(0, func() { h.stop("a") })
		}, 250, fourUnknown("40", "a", unknown)},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("other")
			c.scenario(h)
			h.pod("p", "a", defaultTolerations(-1)...)
			h.run(seconds(c.until))
			h.expect("condition", c.want...)
			if marked := len(h.of("pod-not-ready")) == 1; marked != (c.want != nil) {
				t.Errorf("marks of the pod: got %v, want one: %v", h.of("pod-not-ready"), c.want != nil)
			}
		})
	}
}

// TestMarkUnknown_WaitsForGracePeriod checks that a node's last report remains valid until
// its grace period ends.
func TestMarkUnknown_WaitsForGracePeriod(t *testing.T) {
	for ready, c := range map[model.Status]struct {
		deadline int
		want     func(at string) []string
	}{
		model.True:    {40, func(at string) []string { return fourUnknown(at, "a", unknown) }},
		model.False:   {40, func(at string) []string { return fourUnknown(at, "a", unknown) }},
		model.Unknown: {40, func(at string) []string { return fourUnknown(at, "a", unknown)[1:] }}, // Ready is Unknown already
		model.Absent:  {60, func(at string) []string { return fourUnknown(at, "a", "NodeStatusNeverUpdated") }},
	} {
		t.Run(ready.String(), func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("other")
			h.node("a", func(n *model.Node) {
				if n.Conditions[model.Ready].Status = ready; ready == model.Absent {
					n.Conditions = [model.ConditionTypes]model.Condition{}
				}
			})
			h.at(0, func() { h.stop("a") })
			h.run(seconds(c.deadline))
			h.expect("condition")
			h.run(seconds(c.deadline + 1))
			h.expect("condition", c.want(fmt.Sprint(c.deadline))...)
		})
	}
}

func TestTaint_RepeatedAfterSecondLoss(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.at(5*second, func() { h.stop("a") })
	h.at(100*second, func() { h.resume("a") })
	h.at(105*second, func() { h.stop("a") })
	h.run(200 * second)
	h.expectNoExecute("40 a", "140 a")
}

// TestTaint_SwapNeedsNoToken checks that the exchange of one taint for the other needs no token,
// and delays no other node.
func TestTaint_SwapNeedsNoToken(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprint("n", i))
	}
	h.pod("p", "n0", defaultTolerations(300)...)
	h.at(0, func() { h.stop("n0", "n1", "n2") })
	h.at(45*second, func() { h.ready("n0", model.False) })
	h.run(80 * second)
	h.expectNoExecute("40 n0", "45 n0", "50 n1", "60 n2")
	h.run(400 * second)
	h.expect("evict cancel", "340 evict n0 p taint")
}

func TestMarkNotReady_MarksPodBoundToUnreachableNode(t *testing.T) {
	for _, c := range []struct {
		name, node string
		want       []string
	}{
		{"unknown node", "nowhere", nil},
		{"ready node", "up", nil},
		{"node before its first report", "young", nil},
		{"node that reports not ready", "faulty", nil},
		{"silent node", "silent", []string{"50 pod-not-ready silent p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			for _, name := range []string{"up", "faulty", "silent"} {
				h.node(name)
			}
			h.at(5*second, func() { h.stop("silent") })
			h.at(5*second, func() { h.ready("faulty", model.False) })
			h.at(40*second, func() { h.neverReporting("young") })
			h.at(50*second, func() { h.pod("p", c.node, defaultTolerations(-1)...) })
			h.run(90 * second)
			h.expect("pod-not-ready", c.want...)
		})
	}
}

// TestMarkNotReady_IsNotRateLimited checks that all pods of nodes lost at once are marked
// immediately, not at the rate of their zone.
func TestMarkNotReady_IsNotRateLimited(t *testing.T) {
	h := newHarness(t, taintMode())
	const lost, each = 40, 5
	for i := range 2 * lost {
		h.node(fmt.Sprint("n", i))
	}
	h.at(5*second, func() {
		for i := range lost {
			for p := range each {
				h.pod(fmt.Sprintf("p%d-%d", i, p), fmt.Sprint("n", i), defaultTolerations(-1)...)
			}
			h.stop(fmt.Sprint("n", i))
		}
	})
	h.run(41 * second)
	if n := len(h.of("pod-not-ready")); n != lost*each {
		t.Errorf("got %d marked pods, want %d", n, lost*each)
	}
	h.expectNoExecute("40 n0")
}
