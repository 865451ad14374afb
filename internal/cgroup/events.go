package cgroup

// MemoryEvents are the event counters of a version 2 cgroup since its creation. memory.events
// counts for the cgroup and all below, memory.events.local (Linux 5.2) for the cgroup alone.
type MemoryEvents struct {
	High uint64 // usage exceeded memory.high: tasks were throttled and made to reclaim
	Max  uint64 // usage was about to exceed memory.max
	OOM  uint64 // usage was at memory.max, and an allocation about to fail
	// OOMKill is the number of processes killed by an OOM killer: that of the cgroup, of an
	// ancestor, or of the machine.
	OOMKill uint64
}

// ParseMemoryEvents parses memory.events or memory.events.local. Returns an error if a line is
// malformed or one of the four is missing; kernels have written them since 4.13.
func ParseMemoryEvents(text []byte) (MemoryEvents, error) {
	var e MemoryEvents
	wanted := [...]keyed{{"high", &e.High, false}, {"max", &e.Max, false}, {"oom", &e.OOM, false}, {"oom_kill", &e.OOMKill, false}}
	_, err := parseKeyed(text, "memory.events", wanted[:])
	if err == nil {
		err = missing("memory.events", wanted[:])
	}
	if err != nil {
		return MemoryEvents{}, err
	}
	return e, nil
}

// ParseOOMKills parses the number of OOM kills in memory.oom_control of version 1. It counts
// the processes of the cgroup, without those below it, killed for the cgroup, an ancestor or
// the machine. The same line of /proc/vmstat counts those of the whole machine. Returns an error
// if the line is malformed or missing; kernels have written it since 4.13.
func ParseOOMKills(text []byte) (uint64, error) {
	var kills uint64
	wanted := [...]keyed{{"oom_kill", &kills, false}}
	_, err := parseKeyed(text, "memory.oom_control", wanted[:])
	if err == nil {
		err = missing("memory.oom_control", wanted[:])
	}
	if err != nil {
		return 0, err
	}
	return kills, nil
}

// ParsePopulated parses in cgroup.events of version 2 whether the cgroup or one below it
// contains a process. Returns an error if the line is malformed or missing.
func ParsePopulated(text []byte) (bool, error) {
	var populated uint64
	wanted := [...]keyed{{"populated", &populated, false}}
	_, err := parseKeyed(text, "cgroup.events", wanted[:])
	if err == nil {
		err = missing("cgroup.events", wanted[:])
	}
	return err == nil && populated > 0, err
}
