package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
)

// otherWriters are the field managers that do what this controller does.
type otherWriters []string

// An otherWrite is the last one of a rival to a node. The zero value is none.
type otherWrite struct {
	By   string // the field manager
	What string // the field
	Node string
	At   time.Time
}

// of finds the last write of a rival to the node's condition Ready or its taints.
// It reads what the API server keeps about who wrote which field; a rival that has
// written other fields of the same part of the object since looks younger than it
// is, as attaching volumes does to a node that is Unknown.
func (r otherWriters) of(n *corev1.Node) (last otherWrite) {
	for i := range n.ManagedFields {
		m := &n.ManagedFields[i]
		if m.Time == nil || !m.Time.After(last.At) || !slices.Contains(r, m.Manager) {
			continue
		}
		if what := convert.Judged(m); what != "" {
			last = otherWrite{By: m.Manager, What: what, Node: n.Name, At: m.Time.Time}
		}
	}
	return last
}
