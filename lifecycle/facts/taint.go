package facts

import "time"

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
}

// Is reports whether it is the taint of this key and effect, whatever its value:
// a node has one of them at most.
func (t *Taint) Is(key string, effect Effect) bool { return t.Key == key && t.Effect == effect }

// An Operator is how a toleration compares.
type Operator uint8

// The operators. Equal is that of a toleration which names none. InvalidOperator
// tolerates nothing.
const (
	Equal Operator = iota
	Exists
	InvalidOperator
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
	case Exists:
		return true
	case Equal:
		return t.Key != "" && t.Value == taint.Value
	default:
		return false
	}
}
