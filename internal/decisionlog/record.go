package decisionlog

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// Record is one decision of the agent. Its line in the decision log, events about it, the record of
// an eviction in the cluster and the answer to why are made from it. Amounts are in the unit of the
// signal (bytes, inodes, PIDs), durations in milliseconds. docs/reference/decision-log.md describes
// every key.
type Record struct {
	Time             time.Time   `json:"time"`
	Decision         Verb        `json:"decision"`
	Check            string      `json:"check,omitempty"`   // periodic or early
	WokenBy          []string    `json:"wokenBy,omitempty"` // sources other than the timer
	Reason           string      `json:"reason,omitempty"`
	Signal           string      `json:"signal,omitempty"`
	Threshold        string      `json:"threshold,omitempty"`
	Available        *int64      `json:"available,omitempty"`
	Capacity         *int64      `json:"capacity,omitempty"`
	Cache            *int64      `json:"cache,omitempty"`                  // page cache in use that the kernel reclaims first
	Rate             *int64      `json:"ratePerSecond,omitempty"`          // decrease of the available amount
	TimeToExhaustion *float64    `json:"timeToExhaustionMillis,omitempty"` // at that rate
	Met              []string    `json:"met,omitempty"`                    // signals of met thresholds, grace passed
	Unknown          []string    `json:"unknown,omitempty"`                // signals, with their causes
	Conditions       []string    `json:"conditions"`                       // True after this check
	Reclaimed        []string    `json:"reclaimed,omitempty"`              // containers, images
	Pod              string      `json:"pod,omitempty"`                    // namespace/name
	UID              string      `json:"uid,omitempty"`
	Grace            *int64      `json:"gracePeriodSeconds,omitempty"` // of a soft eviction
	Message          string      `json:"message,omitempty"`            // as in the pod's status
	Ranking          []PodReason `json:"ranking,omitempty"`            // its first pods
	Failed           []PodReason `json:"failed,omitempty"`             // pods that could not be killed, with their errors
	Processes        int         `json:"processes,omitempty"`          // signalled
	Status           Status      `json:"status,omitempty"`             // of the report to the API server: reported or pending
	StatusTime       *float64    `json:"statusMillis,omitempty"`       // from the check until it was reported, or until the wait for it ended
	KillTime         *float64    `json:"killMillis,omitempty"`         // from the check to the last SIGKILL
	ExitTime         *float64    `json:"exitMillis,omitempty"`         // from the check until no process was left
	Stalls           []PodReason `json:"stalls,omitempty"`             // pods that waited for memory, or met their own limit
	FreedBytes       *int64      `json:"freedBytes,omitempty"`         // increase of the available amount since the check
	ProcessesRemain  bool        `json:"processesRemain,omitempty"`    // processes with SIGKILL have not exited yet
	DryRun           bool        `json:"dryRun,omitempty"`             // the wait for an eviction that was only reported
	LimitedBy        string      `json:"limitedBy,omitempty"`          // the limit in force: quota, ineffective or owner
	// KubeletWouldEvict is the pod that the kubelet would evict in place of Pod, or of none. Spared is
	// the number of pods that were passed over because their end would not help.
	KubeletWouldEvict string `json:"kubeletWouldEvict,omitempty"`
	Spared            int    `json:"spared,omitempty"`
	// GrewMost is the pod that grew most since an earlier measurement under this pressure, protected
	// pods included, GrewBy its growth, and GrewOver the time since.
	GrewMost string   `json:"grewMost,omitempty"`
	GrewBy   int64    `json:"grewBy,omitempty"`
	GrewOver *float64 `json:"grewOverMillis,omitempty"`
	// Repeated is why an earlier decision is written again.
	Repeated Repeat `json:"repeated,omitempty"`
	// Consumers are the largest consumers of the resource if evictions free too little of it, and
	// Unmeasured is what was not measured of them.
	Consumers  []signals.Consumer `json:"consumers,omitempty"`
	Unmeasured []string           `json:"unmeasured,omitempty"`
	// Choice is why this pod, and End how the eviction went on. The line of the log has neither: see Line.
	// The record of an eviction in the cluster has both, and a recording on the node the choice.
	Choice *Choice `json:"choice,omitempty"`
	End    string  `json:"end,omitempty"`
}

// Verb is the kind of a decision.
type Verb string

// PodReason is an entry of a list of pods.
type PodReason struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

// Status is the state of the report of an eviction to the API server.
type Status string

// Pending: the API server has not accepted the pod's status yet.
const Pending Status = "pending"

// Repeat is why a decision is written again.
type Repeat string

// Line returns the record with the keys of the decision log alone.
func (r Record) Line() *Record {
	r.Choice, r.End = nil, ""
	return &r
}

// Texts returns the texts of a decoded record that are shown: names of pods, and others. Lines may come from a
// stolen token or a foreign file, so that each text can have anything in it.
func (r *Record) Texts() (names, others []*string) {
	names = []*string{&r.Pod, &r.KubeletWouldEvict, &r.GrewMost}
	others = []*string{(*string)(&r.Decision), &r.Check, &r.Reason, &r.Signal, &r.Threshold, &r.UID, &r.Message, (*string)(&r.Status), &r.LimitedBy, (*string)(&r.Repeated), &r.End}
	for _, list := range [][]PodReason{r.Ranking, r.Failed, r.Stalls} {
		for i := range list {
			names, others = append(names, &list[i].Pod), append(others, &list[i].Reason)
		}
	}
	for _, list := range [][]string{r.Conditions, r.Unknown} {
		for i := range list {
			others = append(others, &list[i])
		}
	}
	if c := r.Choice; c != nil {
		names, others = append(names, &c.Kubelet), append(others, &c.Cause)
		for i := range c.Places {
			p := &c.Places[i]
			names, others = append(names, &p.Pod), append(others, &p.UID, &p.Incomplete, &p.Open, &p.Passed)
		}
	}
	return names, others
}

// SetOrder sets the order of the places of a decoded choice, which follows from its cause. A local-storage limit
// has none.
func (c *Choice) SetOrder() {
	s, err := signals.Parse(c.Cause)
	for i := range c.Places {
		if c.Places[i].Key.Order = ranking.ByMemory; err == nil {
			c.Places[i].Key.Order = ranking.For(s)
		}
	}
}

// Choice is the choice of the pod of an eviction, with the figures of the ranking at that time.
type Choice struct {
	Cause    string `json:"cause"`              // the signal, or the local-storage limit
	Deleted  bool   `json:"deleted,omitempty"`  // deleted pods held the shortage: the largest of them ended first
	Limited  bool   `json:"limited,omitempty"`  // a pod before it was passed over for a limit on evictions
	Kubelet  string `json:"kubelet,omitempty"`  // the pod that the kubelet would have evicted
	Pods     int    `json:"pods,omitempty"`     // number of ranked pods
	Shortage int64  `json:"shortage,omitempty"` // the missing amount
	Least    int64  `json:"least,omitempty"`    // to be freed by a pod that helps
	// Places are the first pods of the ranking, the evicted one and those after it, in their order.
	Places []Place `json:"places,omitempty"`
}

// Place is a pod in a ranking.
type Place struct {
	Place int    `json:"place"` // 1 is the first to evict
	Pod   string `json:"pod"`   // namespace/name
	UID   string `json:"uid"`
	ranking.Key
	Frees  int64  `json:"frees"`            // amount that the end of the pod frees
	Open   string `json:"open,omitempty"`   // why it may free any amount
	Grew   int64  `json:"grew,omitempty"`   // increase since an earlier measurement
	Passed string `json:"passed,omitempty"` // why it was passed over, or would be
}

// Evicted returns the place of the evicted pod, and that of the pod that would have been evicted in its
// stead. Either is nil if it is not known, the second one also without such a pod, and if the ranking alone did
// not decide: after a limit on evictions, no pod is evicted in place of another.
func (r *Record) Evicted() (evicted, next *Place) {
	if r.Choice == nil {
		return nil, nil
	}
	for i := range r.Choice.Places {
		switch p := &r.Choice.Places[i]; {
		case p.UID == r.UID && p.Pod == r.Pod:
			evicted = p
		case evicted != nil && p.Passed == "" && !r.Choice.Deleted && !r.Choice.Limited:
			return evicted, p
		}
	}
	return evicted, nil
}
