package signals

import "time"

// A Stall is a pod, or a part of the node, whose tasks waited for memory or met
// a limit of their own, since it was asked for before.
type Stall struct {
	Pod   *Pod   // nil: see Where
	Where string // the cgroup, where it is no pod's
	// Waited is the time in which at least one task waited for memory ("some"
	// of memory.pressure); unknown on cgroup v1, which keeps none by cgroup.
	Waited Measured[time.Duration]
	Over   time.Duration // since it was asked for before
	// How often the pod, or a container of it, met its own memory.max
	// (memory.failcnt on v1), its own memory.high, and was killed for it.
	AtMax, AtHigh, OOMKills uint64
	// Throttled is for how long its own CPU quota held it back: a task that is
	// held back while it waits for memory waits longer.
	Throttled time.Duration
	Limit     Bytes // its memory.max, 0 if it has none
}

// Own reports whether the stall is explained by limits of the pod's own: the
// rest of the node is not short of memory for it.
func (s *Stall) Own() bool { return s.Pod != nil && (s.AtMax > 0 || s.AtHigh > 0 || s.Throttled > 0) }

// Name is namespace/name of the pod, or the cgroup.
func (s *Stall) Name() string {
	if s.Pod != nil {
		return s.Pod.Key()
	}
	return s.Where
}
