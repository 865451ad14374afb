package eviction

import (
	"cmp"
	"slices"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// ReasonEvicted is the status reason of an evicted pod.
const ReasonEvicted = "Evicted"

// Names of the local-storage limits, used as causes in place of a signal.
const (
	EmptyDirStorageLimit  = "emptydirfs.limit"
	PodStorageLimit       = "ephemeralpodfs.limit"
	ContainerStorageLimit = "ephemeralcontainerfs.limit"
)

// immediateGracePeriod is the grace period of a hard eviction in seconds: the minimum that a
// kubelet accepts.
const immediateGracePeriod = 1

// podDefaultGracePeriod is the grace period in seconds of a pod without
// terminationGracePeriodSeconds.
const podDefaultGracePeriod = 30

// Eviction is the decision to end one pod, with the data for its status, its event and its
// execution.
type Eviction struct {
	Pod *signals.Pod
	// Cause is the name of the signal or of the local-storage limit.
	Cause string
	// Hard evictions end the pod at once; GracePeriod applies to the others.
	Hard        bool
	GracePeriod int64 // seconds, at least 1
	Message     string
	// Explanation is one sentence for the owner of the pod. The event has it behind the message. It names no other pod.
	Explanation      string
	Annotations      map[string]string // of the event; never nil
	DisruptionTarget bool
}

// EvictionFor returns the eviction of a pod for a threshold that an observation meets, without an
// explanation. It executes nothing.
func (p *Policy) EvictionFor(t *Threshold, o *signals.Observation, c signals.Candidate) Eviction {
	e := Eviction{
		Pod:              c.Pod,
		Cause:            t.Signal.String(),
		Hard:             t.Hard(),
		GracePeriod:      immediateGracePeriod,
		DisruptionTarget: true,
	}
	if !t.Hard() {
		e.GracePeriod = p.softGracePeriod(c.Pod)
	}
	e.Message, e.Annotations = pressureMessage(t, o, c)
	return e
}

// softGracePeriod returns the smaller of the pod's own grace period and the configured maximum.
// With a negative maximum it returns the pod's own.
func (p *Policy) softGracePeriod(pod *signals.Pod) int64 {
	own := pod.TerminationGracePeriod
	grace := p.MaxPodGracePeriod
	switch {
	case grace < 0 && own == nil:
		grace = podDefaultGracePeriod
	case grace < 0:
		grace = *own
	case own != nil:
		grace = min(grace, *own)
	}
	return max(grace, 1)
}

// limitExplanation is the explanation of an eviction for a local-storage limit.
const limitExplanation = "Plimsoll evicted this pod because it exceeded a local-storage limit of its own: neither the free space of the node nor other pods mattered."

// Violations returns the evictions of all pods above a local-storage limit, in the order of their
// UIDs. Protected pods and pods without stats are skipped.
func (p *Policy) Violations(pods []signals.Candidate) []Eviction {
	var found []Eviction
	for _, c := range pods {
		if c.Usage == nil || c.Pod.Protection != signals.Unprotected {
			continue
		}
		if cause, message, ok := p.violation(c); ok {
			found = append(found, Eviction{
				Pod: c.Pod, Cause: cause, Hard: true, GracePeriod: immediateGracePeriod,
				Message: message, Explanation: limitExplanation, Annotations: map[string]string{},
			})
		}
	}
	slices.SortFunc(found, func(a, b Eviction) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
	return found
}

// violation checks the local-storage limits in the kubelet's order: emptyDir size limits, the pod's
// ephemeral-storage limit, those of its containers.
func (p *Policy) violation(c signals.Candidate) (cause, message string, ok bool) {
	for i := range c.Pod.Volumes {
		v := &c.Pod.Volumes[i]
		used := c.Usage.Volume(v.Name)
		if v.SizeLimit.Value > 0 && used != nil && signals.Amount(used.Bytes.Value) > v.SizeLimit.Value {
			return EmptyDirStorageLimit, emptyDirMessage(v), true
		}
	}
	limit := c.Pod.StorageLimit
	if limit == nil {
		return "", "", false
	}
	if signals.Amount(c.Usage.EphemeralStorage.Value) > limit.Value {
		return PodStorageLimit, podLimitMessage(limit), true
	}
	for i := range c.Pod.Containers {
		k := &c.Pod.Containers[i]
		used := c.Usage.Container(k)
		if !k.Init && k.StorageLimit.Value > 0 && used != nil && p.layersAndLogs(used) > k.StorageLimit.Value {
			return ContainerStorageLimit, containerLimitMessage(k), true
		}
	}
	return "", "", false
}

// layersAndLogs returns the usage that counts against a container's limit. Writable layers count
// only if they share a device with the logs, as in the kubelet.
func (p *Policy) layersAndLogs(u *signals.ContainerUsage) signals.Amount {
	used := signals.Amount(u.Logs.Bytes.Value)
	if p.Layout == signals.Single {
		used = used.Plus(signals.Amount(u.Rootfs.Bytes.Value))
	}
	return used
}
