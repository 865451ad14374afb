package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// otherWriters are the field managers of controllers with the same purpose.
type otherWriters []string

// otherWrite is the latest write of one of them to a node. The zero value is none.
type otherWrite struct {
	By   string // field manager
	What string // field
	Node string
	At   time.Time
}

// of returns the latest write of another controller to the node's condition Ready or its taints.
// It reads the field managers that the API server stores. A later write of the same manager to
// other fields of that part makes it look more recent. Attaching volumes to an Unknown node is
// such a write.
func (r otherWriters) of(n *corev1.Node) (last otherWrite) {
	for i := range n.ManagedFields {
		m := &n.ManagedFields[i]
		if m.Time == nil || !m.Time.After(last.At) || !slices.Contains(r, m.Manager) {
			continue
		}
		if what := api.LossField(m); what != "" {
			last = otherWrite{By: m.Manager, What: what, Node: n.Name, At: m.Time.Time}
		}
	}
	return last
}
