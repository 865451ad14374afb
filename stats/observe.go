package stats

import (
	"errors"
	"io/fs"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Causes without an error value.
const (
	disksNotObserved = "disks are not observed by this agent"
	notUsed          = "no threshold uses it"
	absurdUsage      = "the kernel reports an absurd usage (above 2^62 bytes)"
	noPodLimit       = "the kubepods cgroup has no memory limit and no memory is reserved: set --kube-reserved or --system-reserved, or let the kubelet enforce node allocatable"
	nothingLeft      = "the reservations leave nothing of the node's memory: lower --kube-reserved or --system-reserved"
	noPIDLimit       = "the kernel reports no limit of PIDs (kernel.pid_max, kernel.threads-max)"
)

// Observe observes the node; the caller supplies the time from its clock. A periodic check fills
// every signal. An early check fills only those of memory and leaves the others unchanged. On
// success it allocates nothing. For the node "/" it reads files of memory (one more
// if kubepods exists), and a periodic check also reads four of /proc.
func (n *Node) Observe(kind signals.Kind, at time.Time, into *signals.Observations) {
	if kind == signals.Periodic {
		n.refresh()
		into[signals.PIDAvailable] = n.observePIDs(at)
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
	into[signals.MemoryAvailable] = n.observeMemory(capacity, at)
	into[signals.AllocatableMemoryAvailable] = n.observeAllocatable(capacity, at)
}

func (n *Node) unknown(s signals.Signal, err error) signals.Observation {
	return signals.Unknown(n.causes[s].of(err))
}

// capacity returns the memory of the node: MemTotal for the machine, else the nearest limit, at
// most MemTotal.
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

// observeMemory returns the memory available within the node's limit.
func (n *Node) observeMemory(capacity signals.Amount, at time.Time) signals.Observation {
	if n.IsMachine() {
		return n.observeMachine(capacity, at)
	}
	u, at, err := n.usageOf(n.memory, &n.own, capacity, at)
	switch {
	case err != nil:
		return n.unknown(signals.MemoryAvailable, err)
	case u.Usage > absurd:
		return signals.Unknown(absurdUsage)
	}
	return observed(capacity, u, at, n.own.epoch)
}

// observed subtracts the working set from the capacity. Cache is the part of it that the kernel
// reclaims before it kills; it counts as used, as in the kubelet.
func observed(capacity signals.Amount, u cgroup.MemoryUsage, at time.Time, epoch uint32) signals.Observation {
	o := signals.Observed(capacity-signals.Amount(u.WorkingSet()), capacity, at)
	o.Cache, o.Epoch = signals.Amount(min(u.ActiveFile, u.WorkingSet())), epoch
	return o
}

func (n *Node) observeAllocatable(node signals.Amount, at time.Time) signals.Observation {
	if n.options.WithoutAllocatable {
		return signals.Unknown(notUsed)
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
	return observed(capacity, u, at, n.podsOwn.epoch)
}

// allocatable returns the memory limit of all pods, or the cause of its absence.
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
