package collect

import (
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// Bounds of texts, in bytes, and of lists.
const (
	maxText     = 512
	maxAccepted = 4096 // of a list of accepted findings: a shorter one would accept less
	maxFindings = 50
)

func nodeOf(n *corev1.Node) clusterstatus.Node {
	node := clusterstatus.Node{Name: printable(n.Name), Created: n.CreationTimestamp.UTC(),
		Arming: sourceOf(n.Annotations[arming.Annotation], n.Annotations[arming.AnnotationAccept])}
	ready := false
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		kind := strings.TrimPrefix(string(c.Type), api.Prefix)
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.NodeReady:
			ready = true
		case isPressure(kind):
			node.Conditions = append(node.Conditions, kind)
		}
	}
	if !ready {
		node.Conditions = append(node.Conditions, clusterstatus.NotReady)
	}
	return node
}

// sourceOf returns a setting of arming with its accepted findings.
func sourceOf(setting, accepted string) arming.Source {
	return arming.Source{Setting: printable(setting), Accepted: strings.Clone(signals.PrintableText(accepted, maxAccepted))}
}

// isPressure reports whether a condition is one of those that agents set.
func isPressure(name string) bool {
	for c := range signals.Condition(signals.ConditionCount) {
		if c.String() == name {
			return true
		}
	}
	return false
}

// agentOf returns what an agent published in its lease; nil if the lease is not that of an agent.
func agentOf(l *coordinationv1.Lease) *clusterstatus.Agent {
	version := l.Annotations[heartbeat.AnnotationVersion]
	if version == "" {
		return nil
	}
	text := func(key string) string { return printable(l.Annotations[key]) }
	a := &clusterstatus.Agent{
		Version: printable(version), Pod: text(heartbeat.AnnotationPod), Reason: text(heartbeat.AnnotationArmedReason),
		Thresholds: text(heartbeat.AnnotationThresholds),
		Readings:   vitals.ParseReadings(l.Annotations[heartbeat.AnnotationSignals]),
		Duration:   heartbeat.LeaseDuration,
	}
	a.Armed, _ = strconv.ParseBool(l.Annotations[heartbeat.AnnotationArmed]) // an unreadable value means disarmed
	for code := range words(l.Annotations[heartbeat.AnnotationFindings]) {
		if len(a.Findings) < maxFindings {
			a.Findings = append(a.Findings, printable(code))
		}
	}
	for c := range words(l.Annotations[heartbeat.AnnotationConditions]) {
		if isPressure(c) && !slices.Contains(a.Conditions, c) {
			a.Conditions = append(a.Conditions, strings.Clone(c))
		}
	}
	if e, ok := vitals.ParseEviction(l.Annotations[heartbeat.AnnotationLastEviction]); ok && !timeOf(e.Time).IsZero() {
		a.LastEviction = vitals.Eviction{Time: timeOf(e.Time), Pod: printable(e.Pod), Cause: printable(e.Cause)}
	}
	if at, err := time.Parse(time.RFC3339, l.Annotations[heartbeat.AnnotationLastCheck]); err == nil {
		a.LastCheck = timeOf(at)
	}
	if l.Spec.RenewTime != nil {
		a.Renewed = timeOf(l.Spec.RenewTime.Time)
	}
	if s := l.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		a.Duration = time.Duration(*s) * time.Second
	}
	return a
}

// timeOf returns a time of a lease in UTC, and zero outside of the years 1970 to 9000. Any writer of a lease can write
// any time. JSON has no form for a year after 9999 or before 0, so that one such time would fail the output of all nodes.
func timeOf(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1970 || t.Year() > 9000 {
		return time.Time{}
	}
	return t
}

// words yields the words of a list that is separated by commas.
func words(list string) func(func(string) bool) {
	return strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' })
}

// printable returns a text for terminals, bounded, and not part of a larger object.
func printable(text string) string { return strings.Clone(signals.PrintableText(text, maxText)) }
