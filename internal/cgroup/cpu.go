package cgroup

import (
	"math"
	"time"
)

// Throttling is how a cgroup's own CPU quota has held its tasks back since it
// was made; quotas above and below it are not counted.
type Throttling struct {
	Periods uint64        // in which the quota was used up
	Time    time.Duration // summed over CPUs, so that it may pass faster than time does
}

// throttlingKeys name the time of cpu.stat, and its unit.
var throttlingKeys = map[Version]struct {
	time string
	unit time.Duration
}{
	V1: {"throttled_time", time.Nanosecond},
	V2: {"throttled_usec", time.Microsecond},
}

// ParseThrottling reads cpu.stat. enabled is false where the cpu controller is
// not enabled for the cgroup, hence no quota: version 2 writes the file all the
// same, without these lines.
func ParseThrottling(text []byte, v Version) (t Throttling, enabled bool, err error) {
	var held uint64
	key := throttlingKeys[v]
	wanted := [...]keyed{{"nr_throttled", &t.Periods, false}, {key.time, &held, false}}
	found, err := parseKeyed(text, "cpu.stat", wanted[:])
	if err == nil && (found > 0 || v == V1) {
		err = missing("cpu.stat", wanted[:])
	}
	if err != nil {
		return Throttling{}, false, err
	}
	t.Time = time.Duration(min(held, math.MaxInt64/uint64(key.unit))) * key.unit
	return t, found > 0, nil
}
