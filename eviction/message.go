package eviction

import (
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Annotations of the Evicted event, with the kubelet's keys.
const (
	offendingContainers      = "offending_containers"
	offendingContainersUsage = "offending_containers_usage"
	offendingPod             = "offending_pod"
	offendingPodUsage        = "offending_pod_usage"
	starvedResource          = "starved_resource"
)

// Parts of messages by which their cause is found again.
const (
	lowOnResource   = "The node was low on resource: "
	aboveEmptyDir   = "Usage of EmptyDir volume "
	abovePodLimit   = "Pod ephemeral local storage usage exceeds the total limit of containers "
	aboveContainers = " exceeded its local ephemeral storage limit "
)

// CauseOf returns the cause of an eviction by the message of the pod's status, that of this program or of a kubelet:
// a resource of the node, or a local-storage limit of the pod. Any other message has neither.
func CauseOf(message string) (resource signals.Resource, isLimit bool) {
	low, isLow := strings.CutPrefix(message, lowOnResource)
	if !isLow {
		return "", strings.HasPrefix(message, aboveEmptyDir) || strings.HasPrefix(message, abovePodLimit) || strings.HasPrefix(message, "Container ") && strings.Contains(message, aboveContainers)
	}
	name, _, _ := strings.Cut(low, ".")
	for s := range signals.All {
		if r := s.Definition().Resource; name == string(r) {
			return r, false
		}
	}
	return "", false
}

// All sentences end in a space, as in the kubelet.

func emptyDirMessage(v *signals.Volume) string {
	return fmt.Sprintf(aboveEmptyDir+"%q exceeds the limit %q. ", v.Name, v.SizeLimit.String())
}

func podLimitMessage(limit *signals.Quantity) string {
	return fmt.Sprintf(abovePodLimit+"%s. ", limit)
}

func containerLimitMessage(k *signals.Container) string {
	return fmt.Sprintf("Container %s"+aboveContainers+"%q. ", k.Name, k.StorageLimit.String())
}

// pressureMessage returns the message with the threshold, the amount available, and the parts of
// the pod that exceed their requests, with the annotations for them. Without stats, the message
// has no parts and there are no annotations.
func pressureMessage(t *Threshold, o *signals.Observation, c signals.Candidate) (string, map[string]string) {
	d := t.Signal.Definition()
	var b strings.Builder
	fmt.Fprintf(&b, lowOnResource+"%s. Threshold quantity: %s, available: %s. ",
		d.Resource, t.Value.Of(o.Capacity), signals.Format(o.Available, d.Unit))
	annotations := map[string]string{}
	if c.Usage == nil {
		return b.String(), annotations
	}
	larger := func(what, name string, used, request string) {
		fmt.Fprintf(&b, "%s %s was using %s, request is %s, has larger consumption of %s. ", what, name, used, request, d.Resource)
	}
	if request := c.Pod.PodLevelMemoryRequest; d.Resource == signals.Memory && request != nil && c.Usage.Memory.Known {
		used := bytes(signals.Amount(c.Usage.Memory.Value))
		larger("Pod", c.Pod.Name, used, request.String())
		annotations[offendingPod], annotations[offendingPodUsage] = c.Pod.Name, used
	}
	var names, usages []string
	for i := range c.Pod.Containers {
		k := &c.Pod.Containers[i]
		used, request, known := consumption(d.Resource, k, c.Usage.Container(k))
		if known && used > request.Value {
			larger("Container", k.Name, bytes(used), request.String())
			names, usages = append(names, k.Name), append(usages, bytes(used))
		}
	}
	annotations[offendingContainers] = strings.Join(names, ",")
	annotations[offendingContainersUsage] = strings.Join(usages, ",")
	annotations[starvedResource] = string(d.Resource)
	return b.String(), annotations
}

// consumption returns a container's usage and request of a resource. The usage of storage needs
// both layers and logs. Inodes and PIDs have no requests.
func consumption(r signals.Resource, k *signals.Container, u *signals.ContainerUsage) (used signals.Amount, request *signals.Quantity, known bool) {
	switch {
	case u == nil:
	case r == signals.Memory:
		return signals.Amount(u.Memory.Value), &k.MemoryRequest, u.Memory.Known
	case r == signals.EphemeralStorage:
		return signals.Amount(u.Rootfs.Bytes.Value).Plus(signals.Amount(u.Logs.Bytes.Value)), &k.StorageRequest, u.Rootfs.Bytes.Known && u.Logs.Bytes.Known
	}
	return 0, nil, false
}

func bytes(a signals.Amount) string { return signals.Format(a, signals.UnitBytes) }
