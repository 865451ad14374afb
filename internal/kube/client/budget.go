package client

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// A budget bounds the parts that are kept of all pods together, as the number of pods
// has no bound: a stopped kubelet rejects none. A part is a container or a volume,
// about 250 bytes. A pod beyond the budget is kept shortened, see [agentpods.Shorten], until
// its next change. Pods of which a kubelet has reported containers have a budget of
// their own, which pods that are only bound to the node can not use up.
type budget struct {
	used   [kindsOfPods]int
	shares map[types.UID]share // of the pods that are kept and of those that arrive in a list
}

// A share is what one pod uses of the budget.
type share struct {
	kind  kindOfPod
	parts int
}

type kindOfPod uint8

const (
	bound    kindOfPod = iota // no kubelet has reported a container of it
	reported                  // one has, which bounds their number
	kindsOfPods
)

// maxParts are about 4 and 10 MB, twice that while a list replaces another. A node of
// 500 pods with 20 parts each stays below.
var maxParts = [kindsOfPods]int{bound: 15_000, reported: 40_000}

// maxShare is the largest share of what is left of the budget that one pod may use,
// as its inverse: a few large pods leave enough for many small ones.
const maxShare = 16

// fit shortens a pod that does not fit, in the place of what is known of it, and
// reports whether it did.
func (b *budget) fit(uid types.UID, pod *signals.Pod, kind kindOfPod) (shortened bool) {
	before := b.shares[uid]
	b.release(uid)
	s := share{kind, parts(pod)}
	grows := s.kind != before.kind || s.parts > before.parts
	if grows && s.parts*maxShare > maxParts[s.kind]-b.used[s.kind] && s.parts > minParts {
		agentpods.Shorten(pod)
		s.parts, shortened = parts(pod), true
	}
	if s.parts > 0 {
		b.shares[uid] = s
		b.used[s.kind] += s.parts
	}
	return shortened
}

// minParts are those of a pod that is not shortened, as next to nothing would be
// gained.
const minParts = 4

func (b *budget) release(uid types.UID) {
	s := b.shares[uid]
	b.used[s.kind] -= s.parts
	delete(b.shares, uid)
}

// retain releases the shares of all other pods.
func (b *budget) retain(kept map[types.UID]*entry) {
	for uid := range b.shares {
		if kept[uid] == nil {
			b.release(uid)
		}
	}
}

func parts(pod *signals.Pod) int {
	return len(pod.Containers) + len(pod.Ephemeral) + len(pod.Volumes)
}

func kindOf(pod *corev1.Pod) kindOfPod {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) > 0 {
		return reported
	}
	return bound
}
