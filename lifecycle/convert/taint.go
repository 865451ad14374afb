package convert

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Taint is a taint of a node; ok is false if it has no effect, or one that
// Kubernetes does not have: it is then to be left out.
func Taint(t *corev1.Taint) (taint model.Taint, ok bool) {
	effect, known := model.ParseEffect(string(t.Effect))
	taint = model.Taint{Key: t.Key, Value: t.Value, Effect: effect}
	if t.TimeAdded != nil {
		taint.Added = Latest(t.TimeAdded.Time)
	}
	return taint, known && effect != model.AnyEffect
}

// Latest is the latest moment that a time of the API can stand for: the API holds
// whole seconds, and cuts off what is beyond. So nothing that counts from it ends
// too early. Written back, the moment is what was read. The zero time stays zero.
func Latest(t time.Time) time.Time {
	if t.IsZero() || t.Nanosecond() != 0 {
		return t
	}
	return t.Add(time.Second - time.Nanosecond)
}

// operators are those of tolerations, by their names in the API.
var operators = map[corev1.TolerationOperator]model.Operator{
	"": model.Equal, corev1.TolerationOpEqual: model.Equal, corev1.TolerationOpExists: model.Exists,
	corev1.TolerationOpGt: model.Greater, corev1.TolerationOpLt: model.Less,
}

// Tolerations are those of a pod, as written. One with an effect that Kubernetes
// does not have stays, and tolerates nothing. One with an operator that is not known
// here tolerates every value.
func Tolerations(written []corev1.Toleration) []model.Toleration {
	all := make([]model.Toleration, len(written))
	for i := range written {
		all[i] = toleration(&written[i])
	}
	return all
}

func toleration(t *corev1.Toleration) model.Toleration {
	operator, is := operators[t.Operator]
	effect, known := model.ParseEffect(string(t.Effect))
	switch {
	case !known:
		operator = model.InvalidOperator
	case !is:
		operator = model.UnknownOperator
	}
	f := model.Toleration{Key: t.Key, Value: t.Value, Operator: operator, Effect: effect}
	if t.TolerationSeconds != nil {
		f.Seconds, f.Bounded = *t.TolerationSeconds, true
	}
	return f
}
