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

func TestANodeThatIsSeenAfterItsPods(t *testing.T) {
	tainted := func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", n.Created)} }
	for _, c := range []struct {
		name string
		node func(*model.Node)
		bear []model.Toleration
		want []string
	}{
		{"it is not tainted", func(*model.Node) {}, nil, nil},
		{"it is tainted", tainted, nil, []string{"5 evict late p taint"}},
		{"it is tainted, and borne", tainted, []model.Toleration{bears("k", -1)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.pod("p", "late", c.bear...)
			w.at(5*second, func() { w.node("late", c.node) })
			w.run(100 * second)
			w.expect("evict cancel", c.want...)
		})
	}
}

// TestBoundToATaintedNode covers a pending pod bound to a tainted node.
func TestBoundToATaintedNode(t *testing.T) {
	for _, c := range []struct {
		name string
		bear []model.Toleration
		want []string
	}{
		{"it bears nothing", nil, []string{"10 evict a p taint"}},
		{"it bears that", []model.Toleration{bears("k", -1)}, nil},
		{"for a while", []model.Toleration{bears("k", 100)}, []string{"105 evict a p taint"}},
		{"for a while that is over", []model.Toleration{bears("k", 2)}, []string{"10 evict a p taint"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.pod("p", "", c.bear...)
			w.at(5*second, func() { w.taint("a", "k") })
			w.at(10*second, func() { w.changePod("p", 0, func(p *model.Pod) { p.Node = "a" }) })
			w.run(200 * second)
			w.expect("evict cancel", c.want...)
		})
	}
}

// TestTheOrderInWhichThingsAreSeenMovesNoDeadline covers the independent watches of nodes and
// pods. In any order, each pod is evicted at its own deadline, or as soon as all required
// objects have arrived.
func TestTheOrderInWhichThingsAreSeenMovesNoDeadline(t *testing.T) {
	patience := map[string]int64{"none": 0, "some": 20, "forever": -1}
	for _, order := range permutations("node", "taint", "none", "some", "forever") {
		if slices.Index(order, "taint") < slices.Index(order, "node") {
			continue
		}
		w := newWorld(t, taintMode())
		seen := map[string]int{}
		for i, what := range order {
			seen[what] = i + 1
			w.at(seconds(i+1), func() { w.seesLate(what, patience) })
		}
		w.run(100 * second)
		w.expect("evict cancel", fmt.Sprint(max(seen["taint"], seen["none"]), " evict a none taint"), "20 evict a some taint")
		if t.Failed() {
			t.Fatalf("seen in this order: %s", strings.Join(order, ", "))
		}
	}
}

// seesLate delivers an object that existed from the start.
func (w *world) seesLate(what string, patience map[string]int64) {
	switch what {
	case "node":
		w.node("a", func(n *model.Node) { n.Created = start })
	case "taint":
		w.change("a", func(n *model.Node) { n.Taints = []model.Taint{noExecute("k", start)} })
	default:
		p := &model.Pod{Namespace: "default", Name: what, UID: what, Node: "a", Created: start, Ready: true,
			Tolerations: []model.Toleration{bears("k", patience[what])}}
		w.pods[what] = p
		w.showPod(what, 0)
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

// TestADeadNodeThatMovesWaitsInItsNewZone covers two of z's dead nodes that move to y while
// they wait, the younger one first. Each takes y's next token, by its age, and none of z's.
func TestADeadNodeThatMovesWaitsInItsNewZone(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprint("n", i))
		w.node(fmt.Sprint("y", i), in("y"))
	}
	w.at(0, func() { w.stop("n0", "n1", "n2", "n3") })
	w.at(45*second, func() { w.change("n3", in("y")) })
	w.at(48*second, func() { w.change("n2", in("y")) })
	w.run(200 * second)
	w.expectNoExecute("40 n0", "45 n3", "50 n1", "55 n2")
}

// TestAZoneThatChangesInTheMiddleOfAWrite covers a node with a change of zone while its taint
// is being written. It is tainted once, and waiting nodes of either zone are not delayed.
func TestAZoneThatChangesInTheMiddleOfAWrite(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprint("n", i))
		w.node(fmt.Sprint("y", i), in("y"))
	}
	w.faults = func(*fleetAction) fault { return fault{carried: 3 * second} }
	w.at(0, func() { w.stop("n0", "n1", "y0") })
	w.at(41*second, func() { w.change("n0", in("y")) })
	w.run(200 * second)
	for _, name := range []string{"n0", "n1", "y0"} {
		if n := w.nodes[name]; !drives(n.Taints) || len(n.Taints) != 2 {
			t.Errorf("%s has the taints %v", name, n.Taints)
		}
	}
	for _, name := range []string{"n1", "y0"} {
		if added := addedTo(w.nodes[name]); added.After(at(51 * second)) {
			t.Errorf("%s was tainted at %v", name, added.Sub(start))
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

// TestATaintOfANodeThatIsOutOfService checks that the out-of-service taint is treated like any
// taint of a user: it evicts pods, and is never removed.
func TestATaintOfANodeThatIsOutOfService(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("web", "a", usual(300)...)
	w.pod("rock", "a", bears("", -1))
	w.at(5*second, func() { w.stop("a") })
	w.at(60*second, func() { w.taint("a", model.KeyOutOfService) })
	w.at(100*second, func() { w.resume("a") })
	w.run(400 * second)
	w.expect("evict cancel", "60 evict a web taint")
	if n := w.nodes["a"]; len(n.Taints) != 1 || n.Taints[0].Key != model.KeyOutOfService {
		t.Errorf("its taints are %v", n.Taints)
	}
}
