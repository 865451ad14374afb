package main

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
	// mostSandboxes bounds how many sandboxes are known.
	mostSandboxes = 10_000
	// sandboxesPeriod is how often the runtime lists them, sandboxesPace how soon again
	// after pods have changed.
	sandboxesPeriod, sandboxesPace = 10 * time.Second, time.Second
	// mostOfSandbox is the memory above which a sandbox is not spared: a process that
	// only holds namespaces has less, one that runs the containers inside of it (a
	// kernel in user space, a virtual machine) has more.
	mostOfSandbox signals.Bytes = 32 << 20
)

// sandboxes are those that the container runtime has, of pods by UID. They are
// listed beside the loop. The zero value has none.
//
// A sandbox that is not known is not spared: to end it with its pod costs at worst
// the reason in the pod's status (docs/internals/decisions/017), while a container that is
// taken for a sandbox lives on in a pod that is reported as evicted. So nothing is
// inferred from what is beside the containers of a status, which may be older than
// a container's restart, and nothing is kept that the runtime does not list. With
// CRI-O's drop_infra_ctr there is no cgroup of that ID, and none is spared.
type sandboxes struct {
	of    atomic.Pointer[map[string]string]
	stale chan struct{} // one slot: pods have changed; nil: only the time counts
}

func newSandboxes() *sandboxes { return &sandboxes{stale: make(chan struct{}, 1)} }

// renew has the sandboxes listed soon. It does not wait.
func (s *sandboxes) renew() {
	select {
	case s.stale <- struct{}{}:
	default:
	}
}

// watch lists the sandboxes until ctx ends. As long as the runtime does not answer,
// those of its last answer count: a runtime never gives their IDs to containers.
func (s *sandboxes) watch(ctx context.Context, list func(context.Context) ([]cri.Sandbox, error)) {
	again(ctx, sandboxesPace, func() bool {
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
	of := make(map[string]string, min(len(found), mostSandboxes))
	for i := range found {
		if len(of) < mostSandboxes && found[i].UID != "" {
			of[found[i].ID] = found[i].UID
		}
	}
	s.of.Store(&of)
}

// has reports whether a cgroup's name is that of a sandbox of the pod.
func (s *sandboxes) has(uid, name string) bool {
	of := s.of.Load()
	return of != nil && uid != "" && (*of)[name] == uid
}

// spared are the directories of a pod's that a kill leaves alone: its sandboxes, and
// those of processes by which a runtime watches containers.
func (n *node) spared(uid string, directories []cgroup.Container) (names []string) {
	for _, d := range directories {
		if d.Watches() || n.sandboxes.has(uid, d.Name) && n.cgroups.ContainerMemory(uid, d.Name).Value <= mostOfSandbox {
			names = append(names, path.Base(d.Path))
		}
	}
	return names
}
