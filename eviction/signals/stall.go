package signals

import "time"

// Stall is a pod, or a cgroup of the node, with tasks that waited for memory or met their own
// limit since the previous query.
type Stall struct {
	Pod   *Pod   // nil: see Where
	Where string // the cgroup, if it is not a pod's
	// Waited is the time in which at least one task waited for memory ("some" of
	// memory.pressure). It is unknown on cgroup v1, which has no such counter per cgroup.
	Waited Measured[time.Duration]
	Over   time.Duration // since the previous query
	// Number of times the pod or one of its containers met its own memory.max (memory.failcnt on
	// v1), met its own memory.high, and was OOM-killed for its limit.
	AtMax, AtHigh, OOMKills uint64
	// Throttled is the time in which its own CPU quota throttled it. A throttled task waits
	// longer for memory.
	Throttled time.Duration
	Limit     Bytes // its memory.max, 0 if it has none
}

// Own reports whether the pod's own limits explain the stall, so that it is no sign of memory
// pressure on the node.
func (s *Stall) Own() bool { return s.Pod != nil && (s.AtMax > 0 || s.AtHigh > 0 || s.Throttled > 0) }

// Name returns namespace/name of the pod, or the cgroup.
func (s *Stall) Name() string {
	if s.Pod != nil {
		return s.Pod.Key()
	}
	return s.Where
}
