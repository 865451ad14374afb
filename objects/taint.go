package objects

import (
	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// Taint is a taint of a node; ok is false if it has no effect, or one that
// Kubernetes does not have: it is then to be left out.
func Taint(t *corev1.Taint) (taint facts.Taint, ok bool) {
	effect, known := facts.ParseEffect(string(t.Effect))
	taint = facts.Taint{Key: t.Key, Value: t.Value, Effect: effect}
	if t.TimeAdded != nil {
		taint.Added = t.TimeAdded.Time
	}
	return taint, known && effect != facts.AnyEffect
}

// operators are those of tolerations, by their names in the API.
var operators = map[corev1.TolerationOperator]facts.Operator{
	"": facts.Equal, corev1.TolerationOpEqual: facts.Equal, corev1.TolerationOpExists: facts.Exists,
}

// Tolerations are those of a pod, as written. One with an operator or an effect
// that Kubernetes does not have stays, and tolerates nothing.
func Tolerations(written []corev1.Toleration) []facts.Toleration {
	all := make([]facts.Toleration, len(written))
	for i := range written {
		all[i] = toleration(&written[i])
	}
	return all
}

func toleration(t *corev1.Toleration) facts.Toleration {
	operator, is := operators[t.Operator]
	effect, known := facts.ParseEffect(string(t.Effect))
	if !is || !known {
		operator = facts.InvalidOperator
	}
	f := facts.Toleration{Key: t.Key, Value: t.Value, Operator: operator, Effect: effect}
	if t.TolerationSeconds != nil {
		f.Seconds, f.Bounded = *t.TolerationSeconds, true
	}
	return f
}
