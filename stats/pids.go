package stats

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// observePIDs observes the number of tasks that can still be created. Since Linux 6.14
// kernel.pid_max is that of the reader's PID namespace, so an agent in a container needs the
// host's (hostPID).
func (n *Node) observePIDs(at time.Time) signals.Observation {
	if n.IsMachine() {
		return n.machinePIDs(at)
	}
	if n.pids == nil {
		return n.unknown(signals.PIDAvailable, n.pidsErr)
	}
	u, err := n.pids.Read()
	switch {
	case err != nil:
		return n.unknown(signals.PIDAvailable, err)
	case !u.Limited:
		return n.machinePIDs(at)
	}
	return signals.Observed(signals.Amount(u.Max)-signals.Amount(u.Current), signals.Amount(u.Max), at)
}

// machinePIDs applies the kubelet's rule: the smaller of the two limits minus the existing
// tasks, threads included.
func (n *Node) machinePIDs(at time.Time) signals.Observation {
	limit := uint64(absurd)
	for _, f := range [...]*cgroup.File{n.pidMax, n.threadsMax} {
		text, err := f.Read(n.buf)
		if err != nil {
			return n.unknown(signals.PIDAvailable, err)
		}
		v, err := cgroup.ParseSingleValue(text)
		if err != nil {
			return n.unknown(signals.PIDAvailable, fmt.Errorf("parse %s: %w", f.Path(), err))
		}
		limit = min(limit, v)
	}
	if limit == 0 || limit == absurd {
		return signals.Unknown(noPIDLimit)
	}
	text, err := n.tasks.Read(n.buf)
	if err != nil {
		return n.unknown(signals.PIDAvailable, err)
	}
	tasks, err := ParseTasks(text)
	if err != nil {
		return n.unknown(signals.PIDAvailable, fmt.Errorf("parse %s: %w", n.tasks.Path(), err))
	}
	return signals.Observed(signals.Amount(limit)-signals.Amount(tasks), signals.Amount(limit), at)
}
