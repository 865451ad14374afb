package model

import (
	"cmp"
	"strconv"
	"time"
)

// An Effect is what a taint does.
type Effect uint8

// The effects. A toleration with AnyEffect is for all of them.
const (
	AnyEffect Effect = iota
	NoSchedule
	PreferNoSchedule
	NoExecute
)

var effectNames = [...]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}

// String is the effect as the API writes it.
func (e Effect) String() string { return effectNames[e] }

// ParseEffect reads an effect; ok is false for one that Kubernetes does not have.
func ParseEffect(text string) (e Effect, ok bool) {
	for i, name := range effectNames {
		if name == text {
			return Effect(i), true
		}
	}
	return 0, false
}

// Keys of the taints that follow from what a node reports
// (kubernetes.io/docs/reference/labels-annotations-taints).
const (
	KeyNotReady           = "node.kubernetes.io/not-ready"
	KeyUnreachable        = "node.kubernetes.io/unreachable"
	KeyMemoryPressure     = "node.kubernetes.io/memory-pressure"
	KeyDiskPressure       = "node.kubernetes.io/disk-pressure"
	KeyPIDPressure        = "node.kubernetes.io/pid-pressure"
	KeyNetworkUnavailable = "node.kubernetes.io/network-unavailable"
	KeyUnschedulable      = "node.kubernetes.io/unschedulable"
	KeyOutOfService       = "node.kubernetes.io/out-of-service"
)

// A Taint keeps pods away from a node, or drives them off.
type Taint struct {
	Key, Value string
	Effect     Effect
	Added      time.Time // timeAdded; zero where nobody wrote it down
	// Swapped is when the taint replaced the other one of a node that is not ready;
	// zero if it did not. It is derived from the node, see [Node.Swapped].
	Swapped time.Time
}

// Opposite is the key of the taint that replaces the one of this key when a node
// that is not ready turns unreachable, or the other way round; "" for other keys.
func Opposite(key string) string {
	switch key {
	case KeyNotReady:
		return KeyUnreachable
	case KeyUnreachable:
		return KeyNotReady
	}
	return ""
}

// KeyOf is the key of the taint that a node with this Ready has; "" if none.
func KeyOf(ready Status) string {
	switch ready {
	case False:
		return KeyNotReady
	case Unknown:
		return KeyUnreachable
	}
	return ""
}

// Swapped returns when a NoExecute taint of the node replaced its opposite, or the
// zero time if it did not. A taint that replaced none was added at or after the
// transition of Ready that called for it; a swapped one has the earlier moment of the other.
func (n *Node) Swapped(t *Taint) time.Time {
	r := &n.Conditions[Ready]
	if t.Effect != NoExecute || t.Key != KeyOf(r.Status) || !r.Transition.After(t.Added) {
		return time.Time{}
	}
	return r.Transition
}

// Is reports whether it is the taint of this key and effect, whatever its value:
// a node has one of them at most.
func (t *Taint) Is(key string, effect Effect) bool { return t.Key == key && t.Effect == effect }

// An Operator is how a toleration compares.
type Operator uint8

// The operators. Equal is that of a toleration which names none. InvalidOperator
// tolerates nothing. Greater (Gt) and Less (Lt) compare integers: the taint's value
// has to be greater, or less, than the toleration's. UnknownOperator is one of a
// later API: it tolerates what Exists would, since an eviction cannot be undone.
const (
	Equal Operator = iota
	Exists
	InvalidOperator
	Greater
	Less
	UnknownOperator
)

// A Toleration lets a pod bear taints.
type Toleration struct {
	Key, Value string
	Operator   Operator
	Effect     Effect
	// Seconds is how long a NoExecute taint is borne; zero and less is not at all.
	Seconds int64
	Bounded bool // false: for ever, whatever Seconds is
}

// Tolerates reports whether the taint is borne, for however long
// (kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration): an
// empty key with Exists matches every taint.
func (t *Toleration) Tolerates(taint *Taint) bool {
	if t.Effect != AnyEffect && t.Effect != taint.Effect {
		return false
	}
	if t.Key != taint.Key && t.Key != "" {
		return false
	}
	switch t.Operator {
	case Exists, UnknownOperator:
		return true
	case Equal:
		return t.Key != "" && t.Value == taint.Value
	case Greater:
		order, ok := compareIntegers(taint.Value, t.Value)
		return ok && t.Key != "" && order > 0
	case Less:
		order, ok := compareIntegers(taint.Value, t.Value)
		return ok && t.Key != "" && order < 0
	default:
		return false
	}
}

// compareIntegers compares two 64-bit integers in canonical decimal form: no sign
// but a minus, no leading zeros. ok is false if one of them is none.
func compareIntegers(a, b string) (order int, ok bool) {
	x, isX := integer(a)
	y, isY := integer(b)
	return cmp.Compare(x, y), isX && isY
}

func integer(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
