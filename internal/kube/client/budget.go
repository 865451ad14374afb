package client

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// budget bounds the stored containers and volumes of all pods together. The number of pods has no
// bound, because a stopped kubelet rejects none. A part is a container or a volume and takes about
// 250 bytes. A pod beyond the budget is stored shortened, see [agentpods.Shorten], until its next
// change. Pods with containers reported by a kubelet have a budget of their own, which pods that
// are only bound to the node cannot exhaust.
type budget struct {
	used   [kindsOfPods]int
	shares map[types.UID]share // of stored pods and of those that arrive in a list
}

// share is the part of the budget that one pod uses.
type share struct {
	kind  kindOfPod
	parts int
}

type kindOfPod uint8

const (
	bound    kindOfPod = iota // no kubelet has reported its containers
	reported                  // a kubelet has reported its containers, which bounds their number
	kindsOfPods
)

// maxParts are about 4 and 10 MB, and twice that while one list replaces another. A node of 500
// pods with 20 parts each stays below.
var maxParts = [kindsOfPods]int{bound: 15_000, reported: 40_000}

// maxShare is the inverse of the largest fraction of the remaining budget that one pod may use.
// Thus a few large pods leave enough for many small ones.
const maxShare = 16

// fit replaces the previous share of a pod and shortens the pod if it does not fit. It reports
// whether it shortened the pod.
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

// minParts is the number of parts up to which a pod is never shortened: the gain would be
// negligible.
const minParts = 4

func (b *budget) release(uid types.UID) {
	s := b.shares[uid]
	b.used[s.kind] -= s.parts
	delete(b.shares, uid)
}

// retain releases the shares of all pods that are not in current.
func (b *budget) retain(current map[types.UID]*entry) {
	for uid := range b.shares {
		if current[uid] == nil {
			b.release(uid)
		}
	}
}

// partBytes is the size of a part.
const partBytes = 250

// parts counts a long path of a hostPath by its size.
func parts(pod *signals.Pod) int {
	n := len(pod.Containers) + len(pod.Ephemeral) + len(pod.Volumes)
	for _, path := range pod.HostPaths {
		n += len(path) / partBytes
	}
	return n
}

func kindOf(pod *corev1.Pod) kindOfPod {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) > 0 {
		return reported
	}
	return bound
}
