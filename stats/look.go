package stats

import (
	"errors"
	"io/fs"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Causes that need no error.
const (
	disksNotObserved = "disks are not observed by this agent"
	notAsked         = "no threshold asks for it"
	absurdUsage      = "the kernel reports an absurd usage (above 2^62 bytes)"
	noPodLimit       = "the kubepods cgroup has no memory limit and no memory is reserved: set --kube-reserved or --system-reserved, or let the kubelet enforce node allocatable"
	nothingLeft      = "the reservations leave nothing of the node's memory: lower --kube-reserved or --system-reserved"
	noPIDLimit       = "the kernel reports no limit of PIDs (kernel.pid_max, kernel.threads-max)"
)

// Look observes the node at a time that the caller read from its clock. A
// regular look fills every signal; an extra one only those of memory, and
// leaves the others as they are. It allocates nothing while it succeeds; for
// the node "/" on cgroup v1 it reads four files of memory (five if kubepods
// exists) and, when regular, four of /proc.
func (n *Node) Look(kind signals.Kind, at time.Time, into *signals.Observations) {
	if kind == signals.Periodic {
		n.refresh()
		into[signals.PIDAvailable] = n.lookPIDs(at)
		for s := signals.NodefsAvailable; s <= signals.ContainerfsInodesFree; s++ {
			into[s] = signals.Unknown(disksNotObserved)
		}
	}
	capacity, err := n.capacity()
	if err != nil {
		into[signals.MemoryAvailable] = n.unknown(signals.MemoryAvailable, err)
		into[signals.AllocatableMemoryAvailable] = n.unknown(signals.AllocatableMemoryAvailable, err)
		return
	}
	into[signals.MemoryAvailable] = n.lookMemory(capacity, at)
	into[signals.AllocatableMemoryAvailable] = n.lookAllocatable(capacity, at)
}

func (n *Node) unknown(s signals.Signal, err error) signals.Observation {
	return signals.Unknown(n.causes[s].of(err))
}

// capacity is the memory of the node: MemTotal for the machine, else the
// nearest limit, as far as the machine has that much.
func (n *Node) capacity() (signals.Amount, error) {
	if n.totalErr != nil {
		return 0, n.totalErr
	}
	if n.IsMachine() {
		return n.total, nil
	}
	for i := -1; i < len(n.above); i++ {
		m := n.memory
		if i >= 0 {
			m = n.above[i]
		}
		limit, limited, err := m.Limit()
		if err != nil {
			return 0, err
		}
		if limited {
			return min(signals.Amount(limit), n.total), nil
		}
	}
	return n.total, nil
}

// lookMemory is what the node's limit leaves.
func (n *Node) lookMemory(capacity signals.Amount, at time.Time) signals.Observation {
	if n.IsMachine() {
		return n.lookMachine(capacity, at)
	}
	u, at, err := n.usageOf(n.memory, &n.own, capacity, at)
	switch {
	case err != nil:
		return n.unknown(signals.MemoryAvailable, err)
	case u.Usage > absurd:
		return signals.Unknown(absurdUsage)
	}
	return observed(capacity, u, at, n.own.basis)
}

// observed is what is left of a capacity. What the kernel would give up of the
// usage before it kills is told apart: it is used, as the kubelet counts.
func observed(capacity signals.Amount, u cgroup.MemoryUsage, at time.Time, basis uint32) signals.Observation {
	o := signals.Observed(capacity-signals.Amount(u.WorkingSet()), capacity, at)
	o.Cache, o.Epoch = signals.Amount(min(u.ActiveFile, u.WorkingSet())), basis
	return o
}

func (n *Node) lookAllocatable(node signals.Amount, at time.Time) signals.Observation {
	if n.options.WithoutAllocatable {
		return signals.Unknown(notAsked)
	}
	if n.kubepods == nil {
		return n.unknown(signals.AllocatableMemoryAvailable, n.kubepodsErr)
	}
	capacity, cause, err := n.allocatable(node)
	var u cgroup.MemoryUsage
	if err == nil {
		u, at, err = n.usageOf(n.kubepods, &n.podsOwn, capacity, at)
	}
	switch {
	case err != nil:
		if errors.Is(err, fs.ErrNotExist) { // its name may have changed
			n.kubepods.Close()
			n.kubepods, n.kubepodsErr = nil, err
		}
		return n.unknown(signals.AllocatableMemoryAvailable, err)
	case cause != "":
		return signals.Unknown(cause)
	case u.Usage > absurd:
		return signals.Unknown(absurdUsage)
	}
	return observed(capacity, u, at, n.podsOwn.basis)
}

// allocatable is the memory that pods may use in all, or the cause why there is
// no such number.
func (n *Node) allocatable(node signals.Amount) (capacity signals.Amount, cause string, err error) {
	limit, limited, err := n.kubepods.Limit()
	if err != nil {
		return 0, "", err
	}
	if limited {
		return signals.Amount(limit), "", nil
	}
	reserved := signals.Amount(n.options.KubeReserved).Plus(signals.Amount(n.options.SystemReserved))
	switch {
	case reserved == 0:
		return 0, noPodLimit, nil
	case reserved >= node:
		return 0, nothingLeft, nil
	}
	return node - reserved, "", nil
}
