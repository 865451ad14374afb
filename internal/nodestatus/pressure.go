package nodestatus

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// wording is the text of a condition. The standard types have the kubelet's reasons and messages,
// which operators know.
type wording struct {
	kubeletReason, kubeletMessage string
	event                         string // the kubelet's, for the standard types and ours
	ownReason                     string // messages of our own types name the signal
}

// wordings are the texts of each condition: one line for False, one for True. taint is the key of
// the optional taint.
var wordings = [signals.ConditionCount]struct {
	taint   string
	no, yes wording
}{
	signals.DiskPressure: {api.Prefix + "disk-pressure",
		wording{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure", "DiskAboveThresholds"},
		wording{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure", "DiskBelowThreshold"}},
	signals.MemoryPressure: {api.Prefix + "memory-pressure",
		wording{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory", "MemoryAboveThresholds"},
		wording{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory", "MemoryBelowThreshold"}},
	signals.PIDPressure: {api.Prefix + "pid-pressure",
		wording{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID", "PIDsAboveThresholds"},
		wording{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID", "PIDsBelowThreshold"}},
}

func (w *wanted) wording(c signals.Condition) *wording {
	if w.set.Has(c) {
		return &wordings[c].yes
	}
	return &wordings[c].no
}

// standardType and ownType return the types of a condition on the Node.
func standardType(c signals.Condition) corev1.NodeConditionType {
	return corev1.NodeConditionType(c.String())
}

func ownType(c signals.Condition) corev1.NodeConditionType {
	return corev1.NodeConditionType(api.Prefix + c.String())
}

// Crossing is the cause of a condition: the signal below its threshold. The zero value means that
// no signal is below its threshold at the moment.
type Crossing struct {
	Met       bool
	Signal    signals.Signal
	Threshold string         // in its configured form, such as 100Mi or 10%
	Available signals.Amount // in the signal's unit
}

// Crossings has one crossing for every condition.
type Crossings [signals.ConditionCount]Crossing

// wanted is the desired state of the node's conditions.
type wanted struct {
	set       signals.ConditionSet
	crossings Crossings
	hung      bool // the node was not checked for a while
}

// condition returns the desired condition on the Node, without times.
func (w *wanted) condition(c signals.Condition, kind corev1.NodeConditionType, transition time.Duration) corev1.NodeCondition {
	status := corev1.ConditionFalse
	if w.set.Has(c) {
		status = corev1.ConditionTrue
	}
	texts := w.wording(c)
	if kind == standardType(c) {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: texts.kubeletReason, Message: texts.kubeletMessage}
	}
	return corev1.NodeCondition{Type: kind, Status: status, Reason: texts.ownReason, Message: w.message(c, transition)}
}

func (w *wanted) message(c signals.Condition, transition time.Duration) string {
	x := &w.crossings[c]
	switch {
	case !w.set.Has(c):
		return "every signal is above its thresholds"
	case !x.Met:
		return fmt.Sprintf("every signal is above its thresholds; the condition stays for the transition period of %s", transition)
	}
	return fmt.Sprintf("%s is below its threshold: threshold %s, available %s",
		x.Signal, x.Threshold, signals.Format(x.Available, x.Signal.Definition().Unit))
}
