package gc

import (
	"cmp"
	"slices"

	"plimsoll.dev/plimsoll/internal/cri"
)

// deadSandboxes returns the sandboxes to remove, the oldest first: not ready, without containers,
// and not the newest of a pod that may continue.
func deadSandboxes(all []cri.Sandbox, containers []cri.Container, state func(uid string) PodState, pressed bool) []cri.Sandbox {
	occupied := map[string]bool{}
	for i := range containers {
		occupied[containers[i].SandboxID] = true
	}
	newest := map[string]*cri.Sandbox{}
	for i := range all {
		if n := newest[all[i].UID]; n == nil || compareSandboxes(n, &all[i]) < 0 {
			newest[all[i].UID] = &all[i]
		}
	}
	var dead []cri.Sandbox
	for i := range all {
		s := &all[i]
		if s.UID == "" || s.Ready || occupied[s.ID] {
			continue
		}
		// One of unknown age may be the newest.
		superseded := s != newest[s.UID] && !s.Created.IsZero()
		if superseded || forfeited(state(s.UID), pressed) {
			dead = append(dead, *s)
		}
	}
	slices.SortFunc(dead, func(a, b cri.Sandbox) int { return compareSandboxes(&a, &b) })
	return dead
}

// compareSandboxes orders by age, the oldest first; the ID makes the order total.
func compareSandboxes(a, b *cri.Sandbox) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.ID, b.ID))
}

// ofPod returns the pod's sandboxes, and the containers with its UID or in one of them.
func ofPod(uid string, sandboxes []cri.Sandbox, containers []cri.Container) ([]cri.Sandbox, []cri.Container) {
	within := map[string]bool{}
	var own []cri.Sandbox
	for _, s := range sandboxes {
		if s.UID == uid {
			own = append(own, s)
			within[s.ID] = true
		}
	}
	var theirs []cri.Container
	for _, k := range containers {
		if k.PodUID == uid || within[k.SandboxID] {
			theirs = append(theirs, k)
		}
	}
	return own, theirs
}
