package model

import (
	"cmp"
	"strconv"
	"time"
)

// Effect is the effect of a taint.
type Effect uint8

// The effects. A toleration with AnyEffect is for all of them.
const (
	AnyEffect Effect = iota
	NoSchedule
	PreferNoSchedule
	NoExecute
)

var effectNames = [...]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}

// String returns the effect as in the API.
func (e Effect) String() string { return effectNames[e] }

// ParseEffect parses an effect. For one unknown to Kubernetes, ok is false.
func ParseEffect(text string) (e Effect, ok bool) {
	for i, name := range effectNames {
		if name == text {
			return Effect(i), true
		}
	}
	return 0, false
}

// Keys of the taints that follow from a node's conditions
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

// Taint repels pods from a node, or evicts them.
type Taint struct {
	Key, Value string
	Effect     Effect
	Added      time.Time // timeAdded; zero if unset
	// Swapped is when the taint replaced the opposite one of an unready node; zero if it did not.
	// It is derived from the node, see [Node.Swapped].
	Swapped time.Time
}

// Opposite returns the key of the taint that replaces this one when an unready node becomes
// unreachable, or the other way round. It returns "" for other keys.
func Opposite(key string) string {
	switch key {
	case KeyNotReady:
		return KeyUnreachable
	case KeyUnreachable:
		return KeyNotReady
	}
	return ""
}

// KeyOf returns the key of the taint for a node with this status of Ready; "" if none.
func KeyOf(ready Status) string {
	switch ready {
	case False:
		return KeyNotReady
	case Unknown:
		return KeyUnreachable
	}
	return ""
}

// Swapped returns when a NoExecute taint of the node replaced its opposite, or the zero time if
// it did not. A taint without a predecessor was added at or after the transition of Ready that
// required it. A swapped one has the earlier time of its predecessor.
func (n *Node) Swapped(t *Taint) time.Time {
	r := &n.Conditions[Ready]
	if t.Effect != NoExecute || t.Key != KeyOf(r.Status) || !r.Transition.After(t.Added) {
		return time.Time{}
	}
	return r.Transition
}

// Is reports whether the taint has this key and effect, with any value. A node has at most one
// such taint.
func (t *Taint) Is(key string, effect Effect) bool { return t.Key == key && t.Effect == effect }

// Operator is the comparison operator of a toleration.
type Operator uint8

// The operators. Equal is the default. InvalidOperator tolerates nothing. Greater (Gt) and Less
// (Lt) compare integers: the taint's value has to be greater, or less, than the toleration's.
// UnknownOperator is one of a later API. It tolerates the same taints as Exists, since an
// eviction cannot be undone.
const (
	Equal Operator = iota
	Exists
	InvalidOperator
	Greater
	Less
	UnknownOperator
)

// Toleration lets a pod tolerate taints.
type Toleration struct {
	Key, Value string
	Operator   Operator
	Effect     Effect
	// Seconds is how long a NoExecute taint is tolerated; zero and less is not at all.
	Seconds int64
	Bounded bool // false: unlimited, whatever Seconds is
}

// Tolerates reports whether the taint is tolerated, for any duration
// (kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration). An empty key with
// Exists matches every taint.
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

// compareIntegers compares two 64-bit integers in canonical decimal form: no sign but a minus, no
// leading zeros. If one of them is invalid, ok is false.
func compareIntegers(a, b string) (order int, ok bool) {
	x, isX := integer(a)
	y, isY := integer(b)
	return cmp.Compare(x, y), isX && isY
}

func integer(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
