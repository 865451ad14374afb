package lifecycle

import (
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Mode is what becomes of decisions.
type Mode uint8

// The modes. The zero value writes nothing.
const (
	Observe Mode = iota // decisions are told
	Replace             // decisions are carried out, once nobody else does
)

var modeNames = [...]string{Observe: "observe", Replace: "replace"}

// String is the mode as flags have it.
func (m Mode) String() string { return modeNames[m] }

// ParseMode reads a mode as flags have it.
func ParseMode(text string) (Mode, error) { return parsed[Mode](text, modeNames[:], "mode") }

// A Method is how a pod is evicted from a node with a NoExecute taint.
type Method uint8

// The methods.
const (
	Delete Method = iota
	// EvictThenDelete asks policy/v1 first, so that PodDisruptionBudgets count, and
	// deletes when they have refused for as long as the settings say.
	EvictThenDelete
)

var methodNames = [...]string{Delete: "delete", EvictThenDelete: "evict-then-delete"}

// String is the method as flags have it.
func (m Method) String() string { return methodNames[m] }

// ParseMethod reads a method as flags have it.
func ParseMethod(text string) (Method, error) {
	return parsed[Method](text, methodNames[:], "eviction method")
}

func parsed[T ~uint8](text string, names []string, what string) (T, error) {
	for i, name := range names {
		if name == text {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%s %q: there is no such one; use one of %q", what, text, names)
}

// Settings are those of the shell; what is decided is the fleet's policy.
type Settings struct {
	Mode   Mode
	DryRun bool // nothing is written, whatever the mode

	EvictionMethod Method
	EvictionWait   time.Duration // how long refusals of EvictThenDelete are borne, from the first one on

	QPS            float64       // requests per second, all writes and live reads together; negative: not bounded
	Burst          int           // and at once; >= 1
	EventQPS       float64       // events per second, of a budget of their own; 0: none are sent
	RequestTimeout time.Duration // of each request; > 0

	// AgentNamespace is where the nodes' agents keep their leases, each by the name
	// of its node; empty: there are none.
	AgentNamespace string

	// OtherWriters are the field managers that must have been silent for
	// OtherWriterWindow before Replace writes; see [DefaultOtherWriters].
	OtherWriters      []string
	OtherWriterWindow time.Duration

	Election Election
}

// DefaultOtherWriters are the field managers of the controllers that do the same.
var DefaultOtherWriters = []string{"kube-controller-manager", "yurt-manager"}

// Election is how several replicas agree on who decides.
type Election struct {
	Enabled   bool // false: this process leads from the start
	Namespace string
	Name      string // of the Lease
	Identity  string // unique to this process

	LeaseDuration time.Duration // > RenewDeadline
	RenewDeadline time.Duration // > 1.2 * RetryPeriod
	RetryPeriod   time.Duration
}

// Parts are what a controller is handed.
type Parts struct {
	// Watching is for lists and watches: it must have no timeout of its own.
	// Writing is for everything else but elections, and must not limit requests:
	// their budget is here. Electing must wait for neither.
	Watching, Writing, Electing kubernetes.Interface

	// Requested reads the soft eviction that an agent has marked its pod with, nil
	// if it has not. An error: the mark is not one of an agent's, and counts for
	// nothing.
	Requested func(*corev1.Pod) (*model.Request, error)

	// RequestedIn reads the soft evictions that an agent asks for in the annotations
	// of its lease, by the UIDs of pods. An error: none of them counts. Nil: leases
	// ask for nothing.
	RequestedIn func(annotations map[string]string) (map[string]model.Request, error)

	// Decided is handed each decision, in order; it must not wait. Nil: they go to
	// the log alone.
	Decided func(Decision)
	Meters  Meters
	Log     *slog.Logger // nil: slog.Default()
}

// A Decision is one line of what is done, or would be. Its keys are a contract
// (docs/reference/decision-log.md).
type Decision struct {
	Time     string `json:"time"`     // RFC 3339, milliseconds
	Decision string `json:"decision"` // see the kinds in decision.go
	// Rehearsed: nothing is written.
	Rehearsed bool   `json:"dryRun,omitempty"`
	Node      string `json:"node,omitempty"`
	Pod       string `json:"pod,omitempty"` // namespace/name
	UID       string `json:"uid,omitempty"` // of the pod
	Zone      string `json:"zone,omitempty"`
	What      string `json:"change,omitempty"` // e.g. the taints added and removed
	Why       string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"` // it failed; it is tried again
}
