package app

import (
	"context"
	"path"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/cri"
)

const (
	// maxSandboxes bounds the number of sandboxes that are known.
	maxSandboxes = 10_000
	// sandboxesPeriod is the interval between lists of the runtime, sandboxesMinInterval
	// the shortest one after a change of pods.
	sandboxesPeriod, sandboxesMinInterval = 10 * time.Second, time.Second
	// maxSandboxMemory is the memory above which a sandbox is not spared. A process that
	// only holds namespaces has less. One that runs the containers inside of it (a kernel
	// in user space, a virtual machine) has more.
	maxSandboxMemory signals.Bytes = 32 << 20
)

// sandboxes are the pod sandboxes of the container runtime, listed beside the loop. The zero
// value has none.
//
// A sandbox that is not known is not spared. To end it with its pod costs at worst the
// reason in the pod's status (docs/internals/decisions/017), while a container that is mistaken for a
// sandbox would run on in a pod that is reported as evicted. So nothing is inferred from a
// status, which may be older than a container's restart, and a sandbox that the runtime no
// longer lists is dropped. With CRI-O's drop_infra_ctr there is no cgroup of that ID, and
// none is spared.
type sandboxes struct {
	of    atomic.Pointer[map[string]string]
	stale chan struct{} // one slot: pods have changed; nil: the period alone counts
}

func newSandboxes() *sandboxes { return &sandboxes{stale: make(chan struct{}, 1)} }

// renew requests a list soon. It does not wait.
func (s *sandboxes) renew() { fill(s.stale) }

// watch lists the sandboxes until ctx ends. While the runtime does not answer, the last list
// counts: a runtime never gives a sandbox's ID to a container.
func (s *sandboxes) watch(ctx context.Context, list func(context.Context) ([]cri.Sandbox, error)) {
	repeat(ctx, sandboxesMinInterval, func() bool {
		if found, err := list(ctx); err == nil {
			s.set(found)
		}
		timer := time.NewTimer(sandboxesPeriod)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.stale:
		}
		return ctx.Err() == nil
	})
}

func (s *sandboxes) set(found []cri.Sandbox) {
	of := make(map[string]string, min(len(found), maxSandboxes))
	for i := range found {
		if len(of) < maxSandboxes && found[i].UID != "" {
			of[found[i].ID] = found[i].UID
		}
	}
	s.of.Store(&of)
}

// has reports whether a cgroup belongs to a sandbox of the pod, by its name.
func (s *sandboxes) has(uid, name string) bool {
	of := s.of.Load()
	return of != nil && uid != "" && (*of)[name] == uid
}

// exemptDirectories returns the directories of a pod that a kill leaves alone: its sandboxes, and
// processes by which a runtime watches containers.
func (n *node) exemptDirectories(uid string, directories []cgroup.Container) (names []string) {
	for _, d := range directories {
		if d.IsMonitor() || n.sandboxes.has(uid, d.Name) && n.cgroups.ContainerMemory(uid, d.Name).Value <= maxSandboxMemory {
			names = append(names, path.Base(d.Path))
		}
	}
	return names
}
