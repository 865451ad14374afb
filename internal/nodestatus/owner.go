package nodestatus

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// An Owner is who tells the cluster of a pressure condition, and by which type.
type Owner uint8

// Owners of a condition.
const (
	// KubeletReports: the kubelet tells of it, or nobody is meant to. Nothing is
	// written, and a type of our own that was there is withdrawn.
	KubeletReports Owner = iota
	// OwnTypes: beside a kubelet that would rewrite its own, the agent writes
	// plimsoll.dev/MemoryPressure and the like.
	OwnTypes
	// StandardTypes: there is no kubelet, the agent writes MemoryPressure and the
	// like in its place.
	StandardTypes
)

func (o Owner) String() string { return [...]string{"kubelet", "own", "standard"}[o] }

// Owners has one owner for every condition.
type Owners [signals.ConditionCount]Owner

// All is the same owner for every condition.
func (o Owner) All() (all Owners) {
	for c := range all {
		all[c] = o
	}
	return all
}

// A Mode is how the owners are found: the value of --pressure-conditions.
type Mode string

// Modes of finding the owners.
const (
	Auto         Mode = "auto"     // by [Detect]
	ModeKubelet  Mode = "kubelet"  // the kubelet reports all
	ModeOwn      Mode = "own"      // always types of our own
	ModeStandard Mode = "standard" // always the standard types; given up when rewritten
	Off          Mode = "off"      // nothing is written, types of our own are withdrawn
)

var modes = []Mode{Auto, ModeKubelet, ModeOwn, ModeStandard, Off}

// ParseMode reads a mode.
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

// Owners are the owners of a node's conditions by the mode. The arguments are
// those of [Detect].
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

// Detect finds who reports each condition: without a kubelet (a Node that names
// no kubelet version) the agent by the standard types; a kubelet with
// thresholds at or above all of the agent's lines for the condition, by
// itself; beside any other kubelet, and one whose thresholds are not known
// (nil), the agent by types of its own.
//
// How long the kubelet's grace periods are does not matter: it computes
// conditions before it looks at them. lines are the agent's thresholds, hard
// and soft; a condition without any is never set and left to the kubelet.
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

// capacities are the resources of a Node's capacity that percentages of a
// signal refer to.
var capacities = map[signals.Signal]corev1.ResourceName{
	signals.MemoryAvailable: corev1.ResourceMemory,
	signals.NodefsAvailable: corev1.ResourceEphemeralStorage,
}

// capacity is what a percentage of the signal refers to; 0 if the Node does not
// say.
func capacity(n *corev1.Node, s signals.Signal) signals.Amount {
	q := n.Status.Capacity[capacities[s]]
	return signals.Amount(q.Value())
}
