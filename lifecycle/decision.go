package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Decisions returns the names of the kinds of decisions, as in [Decision] and in metrics.
func Decisions() []string {
	var names []string
	for k := core.MarkUnknown; k <= core.ReportEvent; k++ {
		names = append(names, k.String())
	}
	return names
}

// report logs, counts and publishes an action, before its execution. A live read of a lease is
// only counted: there are many, and it decides nothing.
func (c *Controller) report(a *core.Action, now time.Time) {
	c.parts.Meters.decided(a.Kind.String(), c.dryRun)
	if a.Kind == core.ReadLease {
		return
	}
	c.publishDecision(c.decision(a, now))
	if c.dryRun {
		return
	}
	switch {
	case a.Kind == core.Cancel:
		c.events.pod(a.Pod, eventCancelled)
	case a.Kind == core.ReportEvent && a.Node == "":
		c.events.cluster(nodeEvents[a.Event], a.Message)
	case a.Kind == core.ReportEvent:
		c.events.node(a, nodeEvents[a.Event])
		if a.Event == core.DeletingAllPods && a.Object != nil {
			c.parts.Meters.tainted(a.Object.Labels.Place().String())
		}
	}
}

// reportFailure reports the failure of an action. An end because of a lost leadership is no
// failure.
func (c *Controller) reportFailure(a *core.Action, err error, now time.Time) {
	if errors.Is(err, context.Canceled) {
		return
	}
	d := c.decision(a, now)
	d.Error = err.Error()
	c.publishDecision(d)
}

func (c *Controller) publishDecision(d Decision) {
	if c.parts.Decided != nil {
		c.parts.Decided(d)
		return
	}
	c.log.Info("decision", "decision", d.Decision, "dryRun", d.DryRun, "node", d.Node, "zone", d.Zone,
		"pod", d.Pod, "change", d.What, "reason", d.Why, "error", d.Error)
}

// decision returns the log line of an action.
func (c *Controller) decision(a *core.Action, now time.Time) Decision {
	d := Decision{
		Time: now.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Decision: a.Kind.String(), DryRun: c.dryRun,
		Node: a.Node, Why: a.Message,
	}
	if a.Pod != nil {
		d.Pod, d.UID = a.Pod.Key(), a.Pod.UID
	}
	if setDetails := details[a.Kind]; setDetails != nil {
		setDetails(a, &d)
	}
	if c.explained(a) {
		e := c.fleet.Explain(a.Node, now)
		d.Why = reason(&e)
	}
	return d
}

// explained reports whether the explanation of the node is the reason of an action.
func (c *Controller) explained(a *core.Action) bool {
	return a.Kind == core.MarkUnknown || a.Kind == core.Taint && len(a.Add)+len(a.Remove) > 0
}

// details set the keys that are particular to a kind.
var details = map[core.Kind]func(*core.Action, *Decision){
	core.MarkUnknown: func(a *core.Action, d *Decision) {
		var all []string
		for _, s := range a.Conditions {
			all = append(all, fmt.Sprintf("%s=Unknown (%s)", s.Type, s.Reason))
		}
		d.What = strings.Join(all, ", ")
	},
	core.Taint: func(a *core.Action, d *Decision) { d.What = strings.Join(differences(a), ", ") },
	core.Zone: func(a *core.Action, d *Decision) {
		d.Zone = a.Zone.Place.String()
		d.What = fmt.Sprintf("%s, %g nodes/s", a.Zone.State, a.Zone.Rate)
		if !a.Zone.First {
			d.Why = fmt.Sprintf("it was %s, %g nodes/s", a.Zone.WasState, a.Zone.WasRate)
		}
	},
	core.MarkNotReady: func(_ *core.Action, d *Decision) { d.Why = "its node is Unknown" },
	core.Evict:        func(a *core.Action, d *Decision) { d.Why = a.Why.String() },
	core.Cancel:       func(_ *core.Action, d *Decision) { d.Why = "it may stay: the taint is gone, or tolerated" },
	core.SoftEvict: func(a *core.Action, d *Decision) {
		if r := a.Pod.Requested; r != nil {
			d.What = fmt.Sprintf("grace period %d s", r.GraceSeconds)
			d.Why = fmt.Sprintf("its node's agent requested it at %s because of %s", stamp(r.Since), r.Cause)
		}
	},
	core.CleanUpAgent: func(_ *core.Action, d *Decision) { d.Why = "its agent is dead" },
	core.DeleteEvictedPod: func(a *core.Action, d *Decision) {
		d.Why = "its node's agent evicted it at " + stamp(*a.Pod.Evicted)
	},
	core.ReportEvent: func(a *core.Action, d *Decision) { d.What = a.Event.String() },
}

// differences lists the changes of an action to a node's taints and labels.
func differences(a *core.Action) (all []string) {
	name := func(sign string, t *model.Taint) {
		all = append(all, sign+t.Key+":"+t.Effect.String())
	}
	for i := range a.Add {
		name("+", &a.Add[i])
	}
	for i := range a.Remove {
		name("-", &a.Remove[i])
	}
	for _, l := range a.Labels {
		all = append(all, l.Key+"="+l.Value)
	}
	return all
}

// reason returns the facts that the decision on a node is based on, in one line.
func reason(e *core.Explanation) string {
	format := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.UTC().Format("15:04:05.000Z")
	}
	parts := []string{fmt.Sprintf("%s, last sign of life %s", e.Health, strings.TrimSpace(format(e.LastHeartbeat)+" "+string(e.Source)))}
	if e.Health != core.Healthy {
		parts = append(parts, "silent from "+format(e.GraceEnds))
	}
	if !e.Since.IsZero() {
		parts = append(parts, fmt.Sprintf("Ready %s since %s", e.Ready, format(e.Since)))
	}
	return strings.Join(append(parts, fmt.Sprintf("zone %q %s at %g nodes/s", e.Zone, e.State, e.Rate)), "; ")
}
