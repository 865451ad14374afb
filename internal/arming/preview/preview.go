// Package preview predicts what a setting of arming changes in a cluster, before it is written.
//
// Duties and invariants:
//
//   - It is pure. Nodes, settings and the time are arguments, and a plan is a value.
//   - A prediction is the decision of package arming, with the new setting in its place. The agent decides again, with
//     more inputs than the cluster shows.
//   - Nodes are in natural order of their names, so that a bounded plan has the first of them.
package preview

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/natural"
)

// Request is a setting, and what it is for.
type Request struct {
	Setting  arming.Setting // Arm, Disarm or Cleanup
	All      bool           // all nodes: the ConfigMap is written, or their Nodes with Max
	Named    bool           // the nodes were named: they are written even without an agent
	Max      int            // bound of the nodes that change; 0: none
	Accepted *string        // codes of accepted findings; nil: unchanged
	// ConfigMap is the present setting for all nodes.
	ConfigMap arming.Source
}

// Effect is the effect of a setting on a node.
type Effect uint8

// The effects. Nodes that the setting changes are neither so already, nor kept by something else from following.
const (
	Changes Effect = iota
	Already
	Blocked
	Silent
	Missing
)

// Node is a node of a plan.
type Node struct {
	Name   string
	Effect Effect
	Reason string // of Blocked

	inPlace bool // the setting is written already
}

// Plan is the effect of a request.
type Plan struct {
	Request
	Nodes []Node
}

// New returns the effect of a request on nodes.
func New(r Request, nodes []clusterstatus.Node, now time.Time) *Plan {
	p := &Plan{Request: r, Nodes: make([]Node, 0, len(nodes))}
	for i := range nodes {
		p.Nodes = append(p.Nodes, r.effectOn(&nodes[i], now))
	}
	slices.SortFunc(p.Nodes, func(a, b Node) int { return natural.Compare(a.Name, b.Name) })
	return p
}

// ToNodes reports whether the setting is written to Nodes, and not to the ConfigMap.
func (r *Request) ToNodes() bool { return !r.All || r.Max > 0 }

func (r *Request) effectOn(n *clusterstatus.Node, now time.Time) Node {
	e := Node{Name: n.Name, inPlace: r.isIn(n.Arming)}
	switch n.State(now) {
	case clusterstatus.Missing:
		e.Effect = Missing
		return e
	case clusterstatus.Silent:
		e.Effect = Silent
		return e
	case clusterstatus.Armed, clusterstatus.Disarmed:
		if r.follows(n.Agent) {
			e.Effect = Already
			return e
		}
	}
	if e.Reason = r.blockedBy(n); e.Reason != "" {
		e.Effect = Blocked
	}
	return e
}

// follows reports whether an agent follows the setting already.
func (r *Request) follows(a *clusterstatus.Agent) bool {
	if r.Setting == arming.Cleanup {
		return a.Reason == arming.CleanedUp
	}
	return a.Armed == (r.Setting == arming.Arm)
}

// blockedBy returns why the agent of a node would not follow, as far as the cluster shows it. An agent is assumed to run
// with dryRun, so that its findings count.
func (r *Request) blockedBy(n *clusterstatus.Node) string {
	switch {
	case r.ToNodes() && n.Created.IsZero():
		return "no Node has this name, only the lease of an agent"
	case r.Setting != arming.Arm:
		return ""
	case arming.IsLocal(n.Agent.Reason):
		return n.Agent.Reason
	}
	after := arming.Inputs{DryRun: true, Memory: arming.Memory{All: r.ConfigMap, Node: n.Arming, Findings: arming.Findings{Known: true, Errors: n.Agent.Findings}}}
	place := &after.All
	if r.ToNodes() {
		place = &after.Node
	}
	place.Setting = r.Setting.String()
	if r.Accepted != nil {
		place.Accepted = *r.Accepted
	}
	if v := after.Decide(); v.State != arming.Armed {
		return v.Reason
	}
	return ""
}

// isIn reports whether a source has the setting.
func (r *Request) isIn(s arming.Source) bool {
	return arming.ParseSetting(s.Setting) == r.Setting && (r.Accepted == nil || s.Accepted == *r.Accepted)
}

// Write returns the names of the Nodes that are written; none if the ConfigMap is.
func (p *Plan) Write() (names []string) {
	if !p.ToNodes() {
		return nil
	}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; p.writes(n, len(names)) {
			names = append(names, n.Name)
		}
	}
	return names
}

// writes reports whether a Node is written, after a number of others.
func (p *Plan) writes(n *Node, before int) bool {
	if p.Max > 0 {
		return n.Effect == Changes && before < p.Max
	}
	return p.Named || n.Effect != Missing
}

// Idle reports whether there is nothing to write: each node follows the setting, and has it in its place.
func (p *Plan) Idle() bool {
	if !p.ToNodes() {
		return p.isIn(p.ConfigMap) && !slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Effect != Already && n.Effect != Missing })
	}
	return !slices.ContainsFunc(p.Nodes, func(n Node) bool { return p.writes(&n, 0) && (n.Effect != Already || !n.inPlace) })
}

// Count returns the number of nodes with an effect.
func (p *Plan) Count(e Effect) int { return len(p.names(e)) }

func (p *Plan) names(e Effect) (names []string) {
	for i := range p.Nodes {
		if p.Nodes[i].Effect == e {
			names = append(names, p.Nodes[i].Name)
		}
	}
	return names
}
