package groups

import (
	"fmt"
	"strings"
)

// Bounds of the text: names of nodes in a line, and lines about single nodes.
const (
	maxNames   = 10
	maxDetails = 5
)

// Text returns the findings as text, each code with its nodes and its remedy.
func (l *List) Text() string {
	var b strings.Builder
	for i := range l.Items {
		l.Items[i].write(&b)
	}
	fmt.Fprintf(&b, "%d errors, %d warnings, %d infos; nodes: %d\n", l.Errors, l.Warnings, l.Infos, l.Nodes)
	if l.Nodes > 0 {
		b.WriteString("Of what agents find on their nodes, errors alone are listed. For figures and warnings of a node, run in its agent's pod:\n  /plimsoll doctor --config=/etc/plimsoll/agent.yaml\n")
	}
	return b.String()
}

func (g *Group) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s%s\n", g.Severity, g.Code, g.where())
	switch what, same := g.sameWhat(); {
	case len(g.Nodes) > 0 && same && what == "":
		fmt.Fprintf(b, "  %s\n", g.Means)
	case len(g.Nodes) > 0 && same:
		fmt.Fprintf(b, "  %s\n", what)
	case len(g.Nodes) > 0:
		fmt.Fprintf(b, "  %s\n", g.Means)
		g.writeDetails(b)
	}
	for _, what := range g.What {
		fmt.Fprintf(b, "  %s\n", what)
	}
	fmt.Fprintf(b, "  Remedy: %s\n", g.Remedy)
}

// where names the nodes of the group.
func (g *Group) where() string {
	switch n := len(g.Nodes); {
	case n == 0:
		return ""
	case n == 1:
		return ", node " + g.Nodes[0].Name
	case n > maxNames:
		return fmt.Sprintf(", %d nodes: %s and %d more", n, g.names(maxNames), n-maxNames)
	default:
		return fmt.Sprintf(", %d nodes: %s", n, g.names(n))
	}
}

// names joins the names of the first n nodes.
func (g *Group) names(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = g.Nodes[i].Name
	}
	return strings.Join(names, ", ")
}

// sameWhat returns what was found on the nodes, if it is the same on all.
func (g *Group) sameWhat() (what string, same bool) {
	for i := range g.Nodes {
		if what = g.Nodes[0].What; g.Nodes[i].What != what {
			return "", false
		}
	}
	return what, true
}

// writeDetails writes what was found on the first nodes.
func (g *Group) writeDetails(b *strings.Builder) {
	written := 0
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.What != "" && written < maxDetails {
			fmt.Fprintf(b, "    %s: %s\n", n.Name, n.What)
			written++
		}
	}
	if more := len(g.Nodes) - written; more > 0 {
		fmt.Fprintf(b, "    and %d more: -o json has all\n", more)
	}
}
