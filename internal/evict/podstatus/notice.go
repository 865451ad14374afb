package podstatus

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// ReasonEvicted is the reason of the status and of the event.
const ReasonEvicted = "Evicted"

// Notice is the report of one eviction to the API server. UID and Decided together are its
// identity.
type Notice struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Cause is the name of the signal or of the local-storage limit.
	Cause   string `json:"cause"`
	Message string `json:"message"`
	// Explanation is one sentence for the owner of the pod, which the event has behind the message.
	Explanation string `json:"explanation,omitempty"`
	// Annotations are the annotations of the event.
	Annotations map[string]string `json:"annotations,omitempty"`
	// DisruptionTarget is whether the condition is set. It is not for a pod above a limit of its
	// own.
	DisruptionTarget bool      `json:"disruptionTarget,omitempty"`
	Decided          time.Time `json:"decided"`
	// Killed are the runtime's IDs of the containers that ran when the pod was killed. Any other
	// container that runs later was started since. Empty if the runtime could not be queried.
	Killed []string `json:"killed,omitempty"`
	// ObservedGeneration is the metadata.generation of the pod at the decision; omitted if 0, which
	// means unknown.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Pod returns namespace and name.
func (n *Notice) Pod() string { return n.Namespace + "/" + n.Name }

type identity struct {
	uid     string
	decided int64
}

func (n *Notice) identity() identity { return identity{n.UID, n.Decided.UnixNano()} }

// complete reports whether the notice has a pod and a time.
func (n *Notice) complete() bool {
	return n.UID != "" && n.Namespace != "" && n.Name != "" && !n.Decided.IsZero()
}

// killed reports whether a container was among those that were killed. IDs may have the runtime's
// name as a prefix ("containerd://…"), as in a pod's status.
func (n *Notice) killed(id string) bool {
	return slices.ContainsFunc(n.Killed, func(k string) bool { return bare(k) == bare(id) })
}

// bare returns a container's ID without the name of its runtime.
func bare(id string) string {
	if _, rest, named := strings.Cut(id, "://"); named {
		return rest
	}
	return id
}

// PendingStatus is the unreported rest of one notice.
type PendingStatus struct {
	Notice Notice `json:"notice"`
	// Ended: the kill is known to have happened. It is false in the state of a previous run that
	// ended between the decision and the kill, or right after it.
	Ended  bool `json:"ended,omitempty"`
	Status bool `json:"status,omitempty"` // pending
	Event  bool `json:"event,omitempty"`  // pending
	// Again: the status was reported, and overwritten by a kubelet unaware of it.
	Again bool `json:"again,omitempty"`
	// Repair: only reason and message are restored; the conditions remain.
	Repair bool `json:"repair,omitempty"`
}

// clone returns a copy that shares nothing with d, so that the caller may modify d.
func (d PendingStatus) clone() PendingStatus {
	d.Notice.Annotations = maps.Clone(d.Notice.Annotations)
	d.Notice.Killed = slices.Clone(d.Notice.Killed)
	return d
}
