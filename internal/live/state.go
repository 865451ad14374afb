package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/document"
)

// kind is the kind of the document.
const kind = "NodeState"

// State is the state of a node at a time. Amounts are in the unit of the signal, durations in milliseconds, and times
// are those of the node's clock.
type State struct {
	document.Header
	Node    string    `json:"node"`
	Version string    `json:"agentVersion"`
	Time    time.Time `json:"time"` // of this state
	// Arming is armed or disarmed; empty: not known. A client may set silent, for an agent that does not renew its
	// lease.
	Arming     string     `json:"arming,omitempty"`
	Check      *Check     `json:"lastCheck,omitempty"` // nil: none is recorded
	Conditions []string   `json:"conditions"`
	Signals    []Signal   `json:"signals"`
	Next       *Next      `json:"next,omitempty"` // nil: not known
	Measured   time.Time  `json:"podsMeasured,omitzero"`
	PodCount   int        `json:"podCount"`
	Pods       []Pod      `json:"pods"`      // those with the most memory, in this order
	Decisions  []Decision `json:"decisions"` // the latest first
	// Notes name missing and approximate parts.
	Notes []string `json:"notes,omitempty"`
}

// Check is the last recorded check.
type Check struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // periodic or early
	// Interval is the time until the check after it, by the agent's own rule. It may be shorter while an eviction is in
	// flight. Checks far from a threshold are not all recorded.
	Interval     float64   `json:"intervalMillis"`
	NextPeriodic time.Time `json:"nextPeriodic,omitzero"` // when the next periodic check is due
}

// Signal is a signal with one of its thresholds.
type Signal struct {
	Signal     string `json:"signal"`
	Kind       string `json:"kind"`      // hard or soft
	Configured string `json:"threshold"` // such as memory.available<10%
	Unknown    string `json:"unknown,omitempty"`
	Available  *int64 `json:"available,omitempty"`
	Capacity   *int64 `json:"capacity,omitempty"`
	At         *int64 `json:"thresholdAmount,omitempty"` // the available amount at the threshold
	// Margin is the available amount above the threshold, negative below it.
	Margin *int64 `json:"margin,omitempty"`
	Below  bool   `json:"below"`
	// Rate is the decrease of the available amount. For memory it is that by which the agent decides, page cache in
	// active use included.
	Rate       *int64   `json:"ratePerSecond,omitempty"`
	Exhaustion *float64 `json:"timeToExhaustionMillis,omitempty"`
}

// Next is the pod that would be evicted now for one threshold: the first that the agent acts for, or else a near one, or else
// that of memory, as if it were just met.
type Next struct {
	Signal     string  `json:"signal"`
	Configured string  `json:"threshold"`
	Met        bool    `json:"met"`               // less than the threshold is available, or than it with its minimum reclaim after that
	InGrace    bool    `json:"inGracePeriod"`     // it is a soft one, and its grace period has not passed
	Pod        string  `json:"pod,omitempty"`     // empty: none
	Reason     string  `json:"reason,omitempty"`  // why this pod, or why none
	Instead    string  `json:"instead,omitempty"` // why not the one behind it
	Ranking    []Place `json:"ranking"`           // the first places
	// Approximate is why the choice may differ from the agent's.
	Approximate string `json:"approximate,omitempty"`
}

// Place is a place of a ranking.
type Place struct {
	Place  int    `json:"place"`
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
	Passed bool   `json:"passedOver"`
}

// Pod is a pod with its usage.
type Pod struct {
	Pod        string `json:"pod"`
	Memory     *int64 `json:"memory,omitempty"` // working set
	Request    int64  `json:"memoryRequest"`
	Growth     *int64 `json:"memoryGrowthPerSecond,omitempty"`
	Tasks      *int64 `json:"tasks,omitempty"`
	Disk       *int64 `json:"disk,omitempty"`
	Priority   int32  `json:"priority"`
	Protection string `json:"protection,omitempty"` // why it is never evicted
}

// Decision is a line of the decision log.
type Decision struct {
	Time     time.Time `json:"time"`
	Decision string    `json:"decision"`
	Pod      string    `json:"pod,omitempty"`
	Subject  string    `json:"subject,omitempty"` // a threshold, a signal, or a limit
	Reason   string    `json:"reason,omitempty"`
}

// errForm is the error of a line without a state.
var errForm = errors.New("it is no NodeState of plimsoll.dev/v1alpha1")

// Parse returns the state of a line, bounded and printable. Fields of later versions are skipped. Returns an error if the
// line is no state.
func Parse(line []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(line, s); err != nil {
		return nil, fmt.Errorf("decode the state of a node: %w", err)
	}
	if s.Header != document.NewHeader(kind) {
		return nil, fmt.Errorf("decode the state of a node: %w", errForm)
	}
	s.clean()
	return s, nil
}

// Line returns the state as one line of JSON.
func (s *State) Line() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // thresholds have a <
	if err := encoder.Encode(s); err != nil {
		return nil, fmt.Errorf("encode the state of a node: %w", err)
	}
	return b.Bytes(), nil
}
