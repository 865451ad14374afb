package preview

import (
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/internal/arming"
)

// maxNames bounds the names of nodes in a line, and the lines with reasons.
const maxNames = 10

// labels are the names of effects, by setting.
var labels = map[arming.Setting][5]string{
	arming.Arm:     {"to be armed", "armed already", "staying disarmed", "silent agent", "no agent"},
	arming.Disarm:  {"to be disarmed", "disarmed already", "staying armed", "silent agent", "no agent"},
	arming.Cleanup: {"to be cleaned up", "cleaned up already", "not cleaned up", "silent agent", "no agent"},
}

// verbs begin a sentence about a setting.
var verbs = map[arming.Setting]string{arming.Arm: "Arm", arming.Disarm: "Disarm", arming.Cleanup: "Clean up"}

// Text returns the plan as lines for people. cluster and namespace are the names in it.
func (p *Plan) Text(cluster, namespace string) string {
	var b strings.Builder
	if p.ToNodes() {
		fmt.Fprintf(&b, "%s %s of %s, by the annotation %s:\n", verbs[p.Setting], counted(len(p.Write())), cluster, arming.Annotation)
	} else {
		fmt.Fprintf(&b, "%s all nodes of %s, later ones too, by the ConfigMap %s/%s:\n", verbs[p.Setting], cluster, namespace, arming.ConfigMap)
	}
	changes := p.names(Changes)
	later := 0
	if p.Max > 0 && len(changes) > p.Max {
		later, changes = len(changes)-p.Max, changes[:p.Max]
	}
	label := labels[p.Setting]
	line(&b, label[Changes], changes, true)
	if later > 0 {
		fmt.Fprintf(&b, "  %-18s %5d  --max is %d\n", "left for later", later, p.Max)
	}
	line(&b, label[Blocked], p.names(Blocked), false)
	p.writeReasons(&b)
	line(&b, label[Silent], p.names(Silent), true)
	line(&b, label[Missing], p.names(Missing), true)
	line(&b, label[Already], p.names(Already), false)
	return b.String()
}

// line writes a number of nodes, and their names if they are to be shown. Without nodes there is no line.
func line(b *strings.Builder, label string, names []string, shown bool) {
	switch {
	case len(names) == 0:
	case shown:
		fmt.Fprintf(b, "  %-18s %5d  %s\n", label, len(names), listed(names))
	default:
		fmt.Fprintf(b, "  %-18s %5d\n", label, len(names))
	}
}

// writeReasons writes why nodes are blocked.
func (p *Plan) writeReasons(b *strings.Builder) {
	written := 0
	for i := range p.Nodes {
		if p.Nodes[i].Effect != Blocked {
			continue
		}
		if written++; written <= maxNames {
			fmt.Fprintf(b, "    %s: %s\n", p.Nodes[i].Name, p.Nodes[i].Reason)
		}
	}
	if written > maxNames {
		fmt.Fprintf(b, "    and %d more\n", written-maxNames)
	}
}

// listed joins names, and counts those beyond the bound.
func listed(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// Question asks for a confirmation.
func (p *Plan) Question() string {
	if !p.ToNodes() {
		return verbs[p.Setting] + " all nodes?"
	}
	return fmt.Sprintf("%s %s?", verbs[p.Setting], counted(len(p.Write())))
}

func counted(nodes int) string {
	if nodes == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", nodes)
}
