package cluster

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// The reasons of decisions, in words, derived from the same state that the Fleet received.

// since formats a time as in the output.
func since(at time.Time) string { return seconds(at.Sub(start)) }

func (r *run) whyUnknown(n *node) string {
	last := n.lease
	if heartbeat := n.object.Conditions[model.Ready].Heartbeat; heartbeat.After(last) {
		last = heartbeat
	}
	if last.IsZero() {
		return fmt.Sprintf("registered at %s, without a heartbeat since", since(n.object.Created))
	}
	return fmt.Sprintf("last heartbeat at %s, %s ago", since(last), seconds(r.env.now.Sub(last)))
}

// whyZone counts the nodes of a zone as the controller does.
func (r *run) whyZone(c zones.Change) string {
	of, unready := 0, 0
	for _, n := range r.env.nodes {
		if n.object.Labels.Excluded || n.object.Labels.Place() != c.Place {
			continue
		}
		if of++; n.object.Conditions[model.Ready].Status != model.True {
			unready++
		}
	}
	pace := "evictions begin on no further node there"
	if c.Rate > 0 {
		pace = fmt.Sprintf("evictions begin on at most %g nodes there per second", c.Rate)
	}
	return fmt.Sprintf("%d of its %d nodes not ready; %s", unready, of, pace)
}

func (r *run) whyEvicted(a *core.Action) string {
	n := r.env.nodes[a.Node]
	switch {
	case n == nil:
		return "the node is gone"
	case a.Why == core.NodeLost:
		ready := n.object.Conditions[model.Ready]
		return fmt.Sprintf("the node is lost, Ready is %s since %s", ready.Status, since(ready.Transition))
	}
	first, taint, found := time.Time{}, model.Taint{}, false
	for _, t := range n.object.Taints {
		if t.Effect != model.NoExecute {
			continue
		}
		if r.scenario.policy.NoExecute {
			t.Swapped = n.object.Swapped(&t)
		}
		if at, goes := evictions.Deadline(a.Pod, []model.Taint{t}); goes && (!found || at.Before(first)) {
			first, taint, found = at, t, true
		}
	}
	borne, _ := evictions.TolerationTime(a.Pod, &taint)
	if borne <= 0 {
		return taintName(taint) + " is not tolerated"
	}
	return fmt.Sprintf("%s was tolerated for %s, since %s", taintName(taint), seconds(borne), since(first.Add(-borne)))
}

func (r *run) whyCancelled(a *core.Action) string {
	n := r.env.nodes[a.Node]
	if n == nil {
		return "the node is gone"
	}
	for _, t := range n.object.Taints {
		if t.Effect == model.NoExecute {
			return "what taints are left is tolerated"
		}
	}
	return "no NoExecute taint is left"
}

func (r *run) whyDeleted(a *core.Action) string {
	return fmt.Sprintf("evicted by the node's agent at %s, %s ago", since(*a.Pod.Evicted), seconds(r.env.now.Sub(*a.Pod.Evicted)))
}

// counted returns a number of things, such as 1 node or 2 nodes.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
