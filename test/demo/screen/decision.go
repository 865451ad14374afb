package screen

import (
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// A Kind is a decision's part in the demo.
type Kind int

// The kinds of decisions.
const (
	Other   Kind = iota
	Waits        // the threshold is crossed, no pod is evicted
	Evicted      // a pod was evicted
	Failed       // no pod could be evicted
)

// horizon is the agent's default of --early-eviction-horizon.
const horizon = 500 * time.Millisecond

// A Decision is an entry of the agent's decision log, reduced to the part that
// the demo shows.
type Decision struct {
	Kind       Kind
	Time       time.Time // of the check
	Early      bool      // an early check, not a periodic one
	Available  int64
	Exhaustion *time.Duration // until memory is exhausted, nil if it does not fall
	Pod        string
	Ranking    []Pod
	Processes  int
	Exit       time.Duration // from the check until no process remained, zero if one did when the entry was written
	Freed      *int64
	Failed     []Pod // of which the eviction failed
}

// A Pod is a pod in a list, with the reason for its place.
type Pod struct {
	Name   string
	Reason string
}

// Read translates an entry of the decision log.
func Read(d *agent.Decision) Decision {
	read := Decision{
		Kind: kind(d), Time: d.Time, Early: early(d.Check),
		Available: value(d.Available), Exhaustion: duration(d.TimeToExhaustion),
		Pod: d.Pod, Processes: d.Processes, Freed: d.FreedBytes,
	}
	if exit := duration(d.ExitTime); exit != nil {
		read.Exit = *exit
	}
	read.Ranking, read.Failed = pods(d.Ranking), pods(d.Failed)
	return read
}

func pods(places []agent.PodReason) (list []Pod) {
	for _, p := range places {
		list = append(list, Pod{p.Pod, p.Reason})
	}
	return list
}

func kind(d *agent.Decision) Kind {
	switch {
	case d.Decision == agent.Evicted && (d.ExitTime != nil || d.ProcessesRemain):
		return Evicted
	case d.Decision == agent.Pending:
		return Waits
	case d.Decision == agent.Failed:
		return Failed
	}
	return Other
}

// early reports whether a check of this name is an early one.
func early(check string) bool { return check == "early" }

// Imminent reports whether memory is exhausted within the agent's horizon.
func (d *Decision) Imminent() bool { return d.Exhaustion != nil && *d.Exhaustion <= horizon }

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func duration(millis *float64) *time.Duration {
	if millis == nil {
		return nil
	}
	d := time.Duration(*millis * float64(time.Millisecond))
	return &d
}
