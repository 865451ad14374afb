package lifecycle

import (
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Mode is how decisions are treated.
type Mode uint8

// The modes. The zero value writes nothing.
const (
	Observe Mode = iota // decisions are reported only
	Replace             // decisions are executed, unless another controller does the same
)

var modeNames = [...]string{Observe: "observe", Replace: "replace"}

// String returns the mode as in flags.
func (m Mode) String() string { return modeNames[m] }

// ParseMode parses a mode as in flags. It returns an error for an unknown one.
func ParseMode(text string) (Mode, error) { return parsed[Mode](text, modeNames[:], "mode") }

// Method is how a pod is evicted from a node with a NoExecute taint.
type Method uint8

// The methods.
const (
	Delete Method = iota
	// EvictThenDelete requests a policy/v1 Eviction first, so that PodDisruptionBudgets apply. It
	// deletes the pod after they have refused for EvictionWait.
	EvictThenDelete
)

var methodNames = [...]string{Delete: "delete", EvictThenDelete: "evict-then-delete"}

// String returns the method as in flags.
func (m Method) String() string { return methodNames[m] }

// ParseMethod parses a method as in flags. It returns an error for an unknown one.
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

// Settings configure the execution of decisions. The decisions are configured by [core.Policy].
type Settings struct {
	Mode   Mode
	DryRun bool // nothing is written, in any mode

	EvictionMethod Method
	EvictionWait   time.Duration // how long EvictThenDelete accepts refusals, from the first one on

	QPS            float64       // requests per second, all writes and live reads together; negative: unlimited
	Burst          int           // burst of requests; >= 1
	EventQPS       float64       // events per second, with a separate budget; 0: none are sent
	RequestTimeout time.Duration // per request; > 0

	// AgentNamespace is the namespace of the agents' leases, each with the name of its node;
	// empty: there are none.
	AgentNamespace string

	// OtherWriters are the field managers that must have written nothing for OtherWriterWindow
	// before Replace writes; see [DefaultOtherWriters].
	OtherWriters      []string
	OtherWriterWindow time.Duration

	Election Election
}

// DefaultOtherWriters are the field managers of the controllers with the same purpose.
var DefaultOtherWriters = []string{"kube-controller-manager", "yurt-manager"}

// Election configures the leader election of several replicas.
type Election struct {
	Enabled   bool // false: this process leads from the start
	Namespace string
	Name      string // of the Lease
	Identity  string // unique to this process

	LeaseDuration time.Duration // > RenewDeadline
	RenewDeadline time.Duration // > 1.2 * RetryPeriod
	RetryPeriod   time.Duration
}

// Parts are the dependencies of a controller.
type Parts struct {
	// Watching is for lists and watches, and must have no timeout of its own. Writing is for
	// everything else but elections, and must not limit requests: the budget of the controller
	// does. Electing must wait for neither.
	Watching, Writing, Electing api.Interface

	// Requested returns the soft eviction in the agent's mark of a pod, and nil without a mark.
	// It returns an error for a mark in another form, which is ignored.
	Requested func(*corev1.Pod) (*model.Request, error)

	// Decided receives each decision, in order, and must not block. Nil: decisions are only
	// logged.
	Decided func(Decision)
	Meters  Meters
	Log     *slog.Logger // nil: slog.Default()
}

// Decision is one line of the decision log, executed or in dry run. Its keys are a contract
// (docs/reference/decision-log.md).
type Decision struct {
	Time     string `json:"time"`     // RFC 3339, milliseconds
	Decision string `json:"decision"` // see the kinds in decision.go
	// DryRun: nothing is written.
	DryRun bool   `json:"dryRun,omitempty"`
	Node   string `json:"node,omitempty"`
	Pod    string `json:"pod,omitempty"` // namespace/name
	UID    string `json:"uid,omitempty"` // of the pod
	Zone   string `json:"zone,omitempty"`
	What   string `json:"change,omitempty"` // such as the taints added and removed
	Why    string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // failure of the action; it is retried
}
