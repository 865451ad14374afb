package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Events that arrive late or out of order.

func TestNode_ObservedAfterItsPods(t *testing.T) {
	tainted := func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", n.Created)} }
	for _, c := range []struct {
		name        string
		node        func(*model.Node)
		tolerations []model.Toleration
		want        []string
	}{
		{"node without taints", func(*model.Node) {}, nil, nil},
		{"tainted node", tainted, nil, []string{"5 evict late p taint"}},
		{"tainted node, unlimited toleration", tainted, []model.Toleration{tolerates("k", -1)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.pod("p", "late", c.tolerations...)
			h.at(5*second, func() { h.node("late", c.node) })
			h.run(100 * second)
			h.expect("evict cancel", c.want...)
		})
	}
}

// TestPod_BoundToTaintedNode covers a pending pod bound to a tainted node.
func TestPod_BoundToTaintedNode(t *testing.T) {
	for _, c := range []struct {
		name        string
		tolerations []model.Toleration
		want        []string
	}{
		{"no toleration", nil, []string{"10 evict a p taint"}},
		{"unlimited toleration", []model.Toleration{tolerates("k", -1)}, nil},
		{"bounded toleration", []model.Toleration{tolerates("k", 100)}, []string{"105 evict a p taint"}},
		{"expired toleration", []model.Toleration{tolerates("k", 2)}, []string{"10 evict a p taint"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.pod("p", "", c.tolerations...)
			h.at(5*second, func() { h.taint("a", "k") })
			h.at(10*second, func() { h.changePod("p", 0, func(p *model.Pod) { p.Node = "a" }) })
			h.run(200 * second)
			h.expect("evict cancel", c.want...)
		})
	}
}

// TestFleet_ObservationOrderMovesNoDeadline covers the independent watches of nodes and
// pods. In any order, each pod is evicted at its own deadline, or as soon as all required
// objects have arrived.
func TestFleet_ObservationOrderMovesNoDeadline(t *testing.T) {
	tolerated := map[string]int64{"none": 0, "some": 20, "forever": -1}
	for _, order := range permutations("node", "taint", "none", "some", "forever") {
		if slices.Index(order, "taint") < slices.Index(order, "node") {
			continue
		}
		h := newHarness(t, taintMode())
		seen := map[string]int{}
		for i, what := range order {
			seen[what] = i + 1
			h.at(seconds(i+1), func() { h.deliverLate(what, tolerated) })
		}
		h.run(100 * second)
		h.expect("evict cancel", fmt.Sprint(max(seen["taint"], seen["none"]), " evict a none taint"), "20 evict a some taint")
		if t.Failed() {
			t.Fatalf("order of observations: %s", strings.Join(order, ", "))
		}
	}
}

// deliverLate delivers an object that existed from the start.
func (h *harness) deliverLate(what string, tolerated map[string]int64) {
	switch what {
	case "node":
		h.node("a", func(n *model.Node) { n.Created = start })
	case "taint":
		h.change("a", func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", start)} })
	default:
		p := &model.Pod{Namespace: "default", Name: what, UID: what, Node: "a", Created: start, Ready: true,
			Tolerations: []model.Toleration{tolerates("k", tolerated[what])}}
		h.pods[what] = p
		h.showPod(what, 0)
	}
}

func permutations(of ...string) (all [][]string) {
	if len(of) == 0 {
		return [][]string{nil}
	}
	for i, first := range of {
		for _, rest := range permutations(slices.Concat(of[:i], of[i+1:])...) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// TestTaint_MovedNodeWaitsInNewZone covers two unreachable nodes that move from zone z to y
// while they wait, the younger one first. Each spends the next token of y, and none of z.
func TestTaint_MovedNodeWaitsInNewZone(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprint("n", i))
		h.node(fmt.Sprint("y", i), in("y"))
	}
	h.at(0, func() { h.stop("n0", "n1", "n2", "n3") })
	h.at(45*second, func() { h.change("n3", in("y")) })
	h.at(48*second, func() { h.change("n2", in("y")) })
	h.run(200 * second)
	h.expectNoExecute("40 n0", "45 n3", "50 n1", "55 n2")
}

// TestTaint_ToleratesZoneChangeDuringWrite covers a node with a change of zone while its taint
// is being written. It is tainted once, and waiting nodes of either zone are not delayed.
func TestTaint_ToleratesZoneChangeDuringWrite(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprint("n", i))
		h.node(fmt.Sprint("y", i), in("y"))
	}
	h.faults = func(*fleetAction) fault { return fault{carried: 3 * second} }
	h.at(0, func() { h.stop("n0", "n1", "y0") })
	h.at(41*second, func() { h.change("n0", in("y")) })
	h.run(200 * second)
	for _, name := range []string{"n0", "n1", "y0"} {
		if n := h.nodes[name]; !evictsPods(n.Taints) || len(n.Taints) != 2 {
			t.Errorf("%s: got taints %v, want two with NoExecute", name, n.Taints)
		}
	}
	for _, name := range []string{"n1", "y0"} {
		if added := addedTo(h.nodes[name]); added.After(at(51 * second)) {
			t.Errorf("%s was tainted at %v, want at most 51s", name, added.Sub(start))
		}
	}
}

// addedTo returns the time since which a node's pods are being evicted.
func addedTo(n *model.Node) time.Time {
	for _, t := range n.Taints {
		if t.Effect == model.NoExecute {
			return t.Added
		}
	}
	return time.Time{}
}

// TestEvict_TreatsOutOfServiceAsUserTaint checks that the out-of-service taint is treated like
// any taint of a user: it evicts pods, and is never removed.
func TestEvict_TreatsOutOfServiceAsUserTaint(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("web", "a", defaultTolerations(300)...)
	h.pod("rock", "a", tolerates("", -1))
	h.at(5*second, func() { h.stop("a") })
	h.at(60*second, func() { h.taint("a", model.KeyOutOfService) })
	h.at(100*second, func() { h.resume("a") })
	h.run(400 * second)
	h.expect("evict cancel", "60 evict a web taint")
	if n := h.nodes["a"]; len(n.Taints) != 1 || n.Taints[0].Key != model.KeyOutOfService {
		t.Errorf("got taints %v, want out-of-service only", n.Taints)
	}
}
