package cgroup

import (
	"math"
	"time"
)

// Throttling is the throttling of a cgroup's tasks by its own CPU quota since its creation.
// Quotas of ancestors and descendants are not counted.
type Throttling struct {
	Periods uint64        // with an exhausted quota
	Time    time.Duration // sum over CPUs, so it may exceed the elapsed time
}

// throttlingKeys are the key of the time in cpu.stat, and its unit.
var throttlingKeys = map[Version]struct {
	time string
	unit time.Duration
}{
	V1: {"throttled_time", time.Nanosecond},
	V2: {"throttled_usec", time.Microsecond},
}

// ParseThrottling parses cpu.stat. enabled is false if the cpu controller is not enabled for
// the cgroup, hence no quota: version 2 writes the file without these lines then. Returns an
// error if a line is malformed, or one is missing; on version 2 all may be missing.
func ParseThrottling(text []byte, v Version) (t Throttling, enabled bool, err error) {
	var total uint64
	key := throttlingKeys[v]
	wanted := [...]keyed{{"nr_throttled", &t.Periods, false}, {key.time, &total, false}}
	found, err := parseKeyed(text, "cpu.stat", wanted[:])
	if err == nil && (found > 0 || v == V1) {
		err = missing("cpu.stat", wanted[:])
	}
	if err != nil {
		return Throttling{}, false, err
	}
	t.Time = time.Duration(min(total, math.MaxInt64/uint64(key.unit))) * key.unit
	return t, found > 0, nil
}
