// Package groups presents the findings of a cluster by their codes, each with the nodes that have it.
//
// Duties and invariants:
//
//   - It is pure. Facts are arguments, and a list is a value.
//   - The findings that agents report in their leases are those of their nodes, with the meaning and the remedy of the
//     table. What this version does not know stays a finding of package doctor about the agent.
//   - Sentences are bounded and printable.
//   - The worst findings are first, and among them those of the cluster, then those of the most nodes. Nodes are in natural order.
package groups

import (
	"cmp"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/natural"
)

// List is what was found in a cluster.
type List struct {
	document.Header
	Nodes    int     `json:"nodes"` // of the cluster; 0: unknown, or none
	Errors   int     `json:"errors"`
	Warnings int     `json:"warnings"`
	Infos    int     `json:"infos"`
	Items    []Group `json:"items"`

	verdict error
}

// Group has the findings of one code.
type Group struct {
	Code     string          `json:"code"`
	Severity doctor.Severity `json:"severity"`
	Means    string          `json:"means"`
	Remedy   string          `json:"remedy"`
	What     []string        `json:"what,omitempty"` // findings of the cluster
	Nodes    []Node          `json:"nodes"`
}

// Node is a node with a finding.
type Node struct {
	Name string `json:"name"`
	What string `json:"what,omitempty"` // empty: its agent reports the code alone
}

// New returns the findings that follow from facts.
func New(f doctor.ClusterFacts) *List {
	l := &List{Header: document.NewHeader("FindingList"), Nodes: len(f.Nodes.Value), Items: []Group{}}
	all := newCollection()
	for _, x := range doctor.ExamineCluster(withoutReports(f)) {
		all.add(x)
	}
	for i := range f.Nodes.Value {
		if n := &f.Nodes.Value[i]; n.Agent != nil {
			all.addReports(n.Name, n.Agent.Findings)
		}
	}
	for _, g := range all.groups {
		slices.SortFunc(g.Nodes, func(a, b Node) int { return natural.Compare(a.Name, b.Name) })
		l.Items = append(l.Items, *g)
	}
	slices.SortStableFunc(l.Items, compare)
	l.Errors, l.Warnings, l.Infos = l.count(doctor.Error), l.count(doctor.Warning), l.count(doctor.Info)
	l.verdict = doctor.Verdict(all.found)
	return l
}

// compare returns the order of groups.
func compare(a, b Group) int {
	ofNodes := func(g *Group) int { return min(len(g.Nodes), 1) }
	return cmp.Or(a.Severity.Compare(b.Severity), cmp.Compare(ofNodes(&a), ofNodes(&b)), cmp.Compare(len(b.Nodes), len(a.Nodes)), strings.Compare(a.Code, b.Code))
}

// Err returns the error of a command with these findings, as [doctor.Verdict] does.
func (l *List) Err() error { return l.verdict }

func (l *List) count(s doctor.Severity) (n int) {
	for i := range l.Items {
		if l.Items[i].Severity == s {
			n++
		}
	}
	return n
}

// withoutReports returns facts without the findings of agents, which have groups of their own. The facts that were passed
// are unchanged.
func withoutReports(f doctor.ClusterFacts) doctor.ClusterFacts {
	f.Nodes.Value = slices.Clone(f.Nodes.Value)
	for i := range f.Nodes.Value {
		if n := &f.Nodes.Value[i]; n.Agent != nil {
			agent := *n.Agent
			agent.Findings = nil
			n.Agent = &agent
		}
	}
	return f
}

// maxWhat bounds a sentence in bytes. It can have texts of any writer of Nodes, health checks and leases.
const maxWhat = 2048

// collection collects findings by their codes.
type collection struct {
	found  []doctor.Finding
	groups []*Group
	byCode map[string]*Group
	codes  map[string]doctor.Code // of nodes
	means  map[string]string      // of all codes
}

func newCollection() *collection {
	c := &collection{byCode: map[string]*Group{}, codes: map[string]doctor.Code{}, means: map[string]string{}}
	for _, code := range doctor.Codes() {
		c.means[code.Code] = code.Means
	}
	for _, code := range doctor.NodeCodes() {
		c.codes[code.Code] = code
	}
	return c
}

// add adds a finding of the table.
func (c *collection) add(x doctor.Finding) {
	x.What = signals.PrintableText(x.What, maxWhat)
	c.found = append(c.found, x)
	g := c.group(&x)
	if x.Node == "" {
		g.What = append(g.What, x.What)
		return
	}
	g.Nodes = append(g.Nodes, Node{x.Node, x.What})
}

// group returns the group of a finding, a new one for a new code.
func (c *collection) group(x *doctor.Finding) *Group {
	g := c.byCode[x.Code]
	if g == nil {
		g = &Group{Code: x.Code, Severity: x.Severity, Means: c.means[x.Code], Remedy: x.Remedy, Nodes: []Node{}}
		c.byCode[x.Code], c.groups = g, append(c.groups, g)
	}
	if x.Severity.Compare(g.Severity) < 0 {
		g.Severity = x.Severity
	}
	return g
}

// addReports adds the codes that an agent reports for its node. They are errors: an agent reports nothing else.
func (c *collection) addReports(node string, codes []string) {
	var added, unknown []string
	for _, code := range codes {
		known, is := c.codes[code]
		switch {
		case !is:
			unknown = append(unknown, code)
		case !slices.Contains(added, code):
			added = append(added, code)
			c.add(doctor.Finding{Code: code, Severity: doctor.Error, Node: node, Remedy: known.Remedy})
		}
	}
	if len(unknown) > 0 {
		c.add(doctor.Finding{Code: doctor.AgentFindings, Severity: doctor.Error, Node: node, What: "the agent found: " + strings.Join(unknown, ", "),
			Remedy: "run plimsoll doctor on the node; a client of the agent's version has the remedies"})
	}
}
