package nodestatus

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// String lists every condition with its owner.
func (o Owners) String() string {
	var all []string
	for c, owner := range o {
		all = append(all, fmt.Sprintf("%s=%s", signals.Condition(c), owner))
	}
	return strings.Join(all, " ")
}

// whys explain the selection of owners; the first one that holds counts.
var whys = []struct {
	holds func(m Mode, n *corev1.Node, kubelet *kubeletconfig.Config, owners Owners) bool
	why   string
}{
	{func(m Mode, _ *corev1.Node, _ *kubeletconfig.Config, _ Owners) bool { return m != Auto },
		"--pressure-conditions is set so"},
	{func(_ Mode, n *corev1.Node, _ *kubeletconfig.Config, _ Owners) bool {
		return n.Status.NodeInfo.KubeletVersion == ""
	},
		"the Node names no kubelet"},
	{func(_ Mode, _ *corev1.Node, k *kubeletconfig.Config, _ Owners) bool { return k == nil },
		"the kubelet's configuration is not known, and it rewrites the standard types"},
	{func(_ Mode, _ *corev1.Node, _ *kubeletconfig.Config, o Owners) bool { return o == KubeletReports.All() },
		"the kubelet's own thresholds lie at or above all of the agent's"},
	{func(Mode, *corev1.Node, *kubeletconfig.Config, Owners) bool { return true },
		"where the kubelet has no threshold at or above the agent's, it would rewrite the standard types"},
}

// Why returns the reason for the owners that [Mode.Owners] returns for the same arguments.
func (m Mode) Why(n *corev1.Node, kubelet *kubeletconfig.Config, lines []kubeletconfig.Threshold) string {
	owners := m.Owners(n, kubelet, lines)
	for _, w := range whys {
		if w.holds(m, n, kubelet, owners) {
			return w.why
		}
	}
	return ""
}

// owners returns the owner of each condition and logs every change.
func (c *Conditions) owners(n *corev1.Node) Owners {
	owners := c.Owner(n)
	if c.Why != nil && (c.chosen == nil || *c.chosen != owners) {
		c.chosen = &owners
		c.Log.Info("Determined the owners of the pressure conditions", "node", c.NodeName, "owners", owners.String(), "reason", c.Why(n))
	}
	return owners
}
