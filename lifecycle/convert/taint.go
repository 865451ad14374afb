package convert

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Taint returns a taint of a node. If its effect is missing or unknown to Kubernetes, ok is
// false, and the taint must be ignored.
func Taint(t *corev1.Taint) (taint model.Taint, ok bool) {
	effect, known := model.ParseEffect(string(t.Effect))
	taint = model.Taint{Key: t.Key, Value: t.Value, Effect: effect}
	if t.TimeAdded != nil {
		taint.Added = Latest(t.TimeAdded.Time)
	}
	return taint, known && effect != model.AnyEffect
}

// Latest returns the latest time that an API time can stand for, since the API truncates to whole
// seconds. Periods that start at it never end too early. Written back, it is the original time.
// The zero time stays zero.
func Latest(t time.Time) time.Time {
	if t.IsZero() || t.Nanosecond() != 0 {
		return t
	}
	return t.Add(time.Second - time.Nanosecond)
}

// operators are the operators of tolerations, by their API names.
var operators = map[corev1.TolerationOperator]model.Operator{
	"": model.Equal, corev1.TolerationOpEqual: model.Equal, corev1.TolerationOpExists: model.Exists,
	corev1.TolerationOpGt: model.Greater, corev1.TolerationOpLt: model.Less,
}

// Tolerations returns the tolerations of a pod, as written. One with an effect unknown to
// Kubernetes is kept, and tolerates nothing. One with an unknown operator tolerates every value.
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
