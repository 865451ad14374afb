package cgroup

// MemoryEvents is what has happened to a version 2 cgroup since it was made, as
// memory.events counts it for the cgroup and all below, memory.events.local
// (Linux 5.2) for the cgroup alone.
type MemoryEvents struct {
	High uint64 // usage was above memory.high: tasks were slowed down and made to reclaim
	Max  uint64 // usage was about to go above memory.max
	OOM  uint64 // usage was at memory.max, and an allocation about to fail
	// OOMKill is how many processes an OOM killer ended: that of the cgroup, of one
	// above it, or of the machine.
	OOMKill uint64
}

// ParseMemoryEvents reads memory.events or memory.events.local. All four lines
// are required: kernels write them since 4.13.
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

// ParseOOMKills reads from memory.oom_control of version 1 how many processes of
// the cgroup, those below it not included, an OOM killer ended: that of the
// cgroup, of one above it, or of the machine. Kernels write it since 4.13.
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

// ParsePopulated reads from cgroup.events of version 2 whether there is a
// process in the cgroup or below it.
func ParsePopulated(text []byte) (bool, error) {
	var populated uint64
	wanted := [...]keyed{{"populated", &populated, false}}
	_, err := parseKeyed(text, "cgroup.events", wanted[:])
	if err == nil {
		err = missing("cgroup.events", wanted[:])
	}
	return err == nil && populated > 0, err
}
