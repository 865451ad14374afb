package podstatus

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// ReasonEvicted is the reason of the status and of the event.
const ReasonEvicted = "Evicted"

// A Notice is what the API server is told of one eviction. UID and Decided
// together are its identity.
type Notice struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Cause is the signal or the local-storage limit, by name.
	Cause   string `json:"cause"`
	Message string `json:"message"`
	// Annotations are the event's.
	Annotations map[string]string `json:"annotations,omitempty"`
	// DisruptionTarget: the condition is set. A pod above a limit of its own has
	// no claim to it.
	DisruptionTarget bool      `json:"disruptionTarget,omitempty"`
	Decided          time.Time `json:"decided"`
	// Killed are the runtime's IDs of the containers that ran when the pod was
	// killed; any other that runs later was started since. Empty where the
	// runtime could not say.
	Killed []string `json:"killed,omitempty"`
	// ObservedGeneration is the metadata.generation of the pod that was decided
	// on; 0 if it is not known, and then left out.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Pod names the pod as people do.
func (n *Notice) Pod() string { return n.Namespace + "/" + n.Name }

type identity struct {
	uid     string
	decided int64
}

func (n *Notice) identity() identity { return identity{n.UID, n.Decided.UnixNano()} }

// complete reports whether the notice names a pod and a time.
func (n *Notice) complete() bool {
	return n.UID != "" && n.Namespace != "" && n.Name != "" && !n.Decided.IsZero()
}

// killed reports whether a container was among those that were killed. IDs may
// carry the runtime's name ("containerd://…"), as in a pod's status.
func (n *Notice) killed(id string) bool {
	return slices.ContainsFunc(n.Killed, func(k string) bool { return bare(k) == bare(id) })
}

// bare is a container's ID without the name of its runtime.
func bare(id string) string {
	if _, rest, named := strings.Cut(id, "://"); named {
		return rest
	}
	return id
}

// A PendingStatus is what is still owed of one notice.
type PendingStatus struct {
	Notice Notice `json:"notice"`
	// Ended: the kill is known to have happened. It is false in what a program
	// left that ended between the decision and the kill, or right after it.
	Ended  bool `json:"ended,omitempty"`
	Status bool `json:"status,omitempty"` // owed
	Event  bool `json:"event,omitempty"`  // owed
	// Again: the status was told, and taken back by somebody who did not know.
	Again bool `json:"again,omitempty"`
	// Repair: reason and message alone are restored; the conditions stand.
	Repair bool `json:"repair,omitempty"`
}

// clone shares nothing with d, so that whoever gave it may change what is theirs.
func (d PendingStatus) clone() PendingStatus {
	d.Notice.Annotations = maps.Clone(d.Notice.Annotations)
	d.Notice.Killed = slices.Clone(d.Notice.Killed)
	return d
}
