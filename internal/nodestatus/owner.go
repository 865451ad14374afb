package nodestatus

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// Owner is the writer of a pressure condition and the type that it uses.
type Owner uint8

// Owners of a condition.
const (
	// KubeletReports: the kubelet reports the condition, or reporting is off. The agent writes
	// nothing and removes an existing type of our own.
	KubeletReports Owner = iota
	// OwnTypes: the agent writes plimsoll.dev/MemoryPressure and the like, beside a kubelet that
	// would rewrite the standard types.
	OwnTypes
	// StandardTypes: there is no kubelet. The agent writes MemoryPressure and the like in its
	// place.
	StandardTypes
)

func (o Owner) String() string { return [...]string{"kubelet", "own", "standard"}[o] }

// Owners has one owner for every condition.
type Owners [signals.ConditionCount]Owner

// All returns the same owner for every condition.
func (o Owner) All() (all Owners) {
	for c := range all {
		all[c] = o
	}
	return all
}

// Mode selects the owners: the value of --pressure-conditions.
type Mode string

// Modes of selecting the owners.
const (
	Auto         Mode = "auto"     // by [Detect]
	ModeKubelet  Mode = "kubelet"  // the kubelet reports all
	ModeOwn      Mode = "own"      // always types of our own
	ModeStandard Mode = "standard" // always the standard types; given up after a rewrite by others
	Off          Mode = "off"      // nothing is written, types of our own are removed
)

var modes = []Mode{Auto, ModeKubelet, ModeOwn, ModeStandard, Off}

// ParseMode parses the name of a mode. Returns an error if there is no such mode.
func ParseMode(text string) (Mode, error) {
	if m := Mode(text); slices.Contains(modes, m) {
		return m, nil
	}
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	return "", fmt.Errorf("must be one of %s", strings.Join(names, ", "))
}

// Owners returns the owners of a node's conditions. The arguments are those of [Detect].
func (m Mode) Owners(n *corev1.Node, kubelet *kubeletconfig.Config, lines []kubeletconfig.Threshold) Owners {
	switch m {
	case ModeOwn:
		return OwnTypes.All()
	case ModeStandard:
		return StandardTypes.All()
	case ModeKubelet, Off:
		return KubeletReports.All()
	}
	return Detect(n, kubelet, lines)
}

// Detect returns the owner of each condition:
//
//   - Without a kubelet (a Node without a kubelet version) the agent writes the standard types.
//   - A kubelet with thresholds at or above all of the agent's lines for the condition reports it.
//   - Beside any other kubelet, or one with unknown thresholds (nil), the agent writes types of its
//     own.
//
// The kubelet's grace periods do not matter: it computes conditions before it evaluates them. lines
// are the agent's hard and soft thresholds. A condition without any is never set and belongs to the
// kubelet.
func Detect(n *corev1.Node, kubelet *kubeletconfig.Config, lines []kubeletconfig.Threshold) (owners Owners) {
	if n.Status.NodeInfo.KubeletVersion == "" {
		return StandardTypes.All()
	}
	for c := range signals.Condition(signals.ConditionCount) {
		if !kubelet.Reports(c, lines, func(s signals.Signal) signals.Amount { return capacity(n, s) }) {
			owners[c] = OwnTypes
		}
	}
	return owners
}

// capacities maps a signal to the resource of the Node's capacity that its percentages refer to.
var capacities = map[signals.Signal]corev1.ResourceName{
	signals.MemoryAvailable: corev1.ResourceMemory,
	signals.NodefsAvailable: corev1.ResourceEphemeralStorage,
}

// capacity returns the amount that percentages of the signal refer to; 0 if the Node does not state
// it.
func capacity(n *corev1.Node, s signals.Signal) signals.Amount {
	q := n.Status.Capacity[capacities[s]]
	return signals.Amount(q.Value())
}
