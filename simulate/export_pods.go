package simulate

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/recording"
)

// scenarioUsage is the usage of a pod in a step, as it is written. Values are absent if unknown.
type scenarioUsage struct {
	Memory           *int64                       `json:"memory,omitempty"`
	Processes        *int64                       `json:"processes,omitempty"`
	EphemeralStorage *int64                       `json:"ephemeralStorage,omitempty"`
	Containers       map[string]scenarioContainer `json:"containers,omitempty"`
	Volumes          map[string]scenarioFiles     `json:"volumes,omitempty"`

	processes *int64 // the last known number, which is not measured each time
}

type scenarioContainer struct {
	Memory *int64         `json:"memory,omitempty"`
	Rootfs *scenarioFiles `json:"rootfs,omitempty"`
	Logs   *scenarioFiles `json:"logs,omitempty"`
}

type scenarioFiles struct {
	Bytes  *int64 `json:"bytes,omitempty"`
	Inodes *int64 `json:"inodes,omitempty"`
}

// set sets a value of a recorded usage, and the number of processes that was known last.
func (u *scenarioUsage) set(field **int64, value int64) {
	if u.Processes = u.processes; value != recording.Unknown {
		value = max(value, 0)
		*field = &value
	}
}

// size estimates the length of the usage in a file.
func (u *scenarioUsage) size() int { return 60 + 200*len(u.Containers) + 100*len(u.Volumes) }

// measuredUsage returns the usage that an agent measured for a decision.
func measuredUsage(p *signals.Pod, m *signals.Usage) scenarioUsage {
	u := scenarioUsage{Memory: known(m.Memory), Processes: known(m.Processes), EphemeralStorage: known(m.EphemeralStorage)}
	u.processes = u.Processes
	for i := range m.Containers {
		of := &m.Containers[i]
		for j := range p.Containers {
			if name := p.Containers[j].Name; of.Name == name || of.Name == p.Containers[j].ID {
				if u.Containers == nil {
					u.Containers = map[string]scenarioContainer{}
				}
				u.Containers[name] = scenarioContainer{known(of.Memory), files(&of.Rootfs), files(&of.Logs)}
			}
		}
	}
	for i := range m.Volumes {
		if f := files(&m.Volumes[i].FilesystemUsage); f != nil {
			if u.Volumes == nil {
				u.Volumes = map[string]scenarioFiles{}
			}
			u.Volumes[m.Volumes[i].Name] = *f
		}
	}
	return u
}

func files(u *signals.FilesystemUsage) *scenarioFiles {
	if !u.Bytes.Known && !u.Inodes.Known {
		return nil
	}
	return &scenarioFiles{known(u.Bytes), known(u.Inodes)}
}

func known[T signals.Bytes | signals.Inodes | signals.PIDs](m signals.Measured[T]) *int64 {
	if !m.Known {
		return nil
	}
	v := max(int64(m.Value), 0)
	return &v
}

// podObject returns a pod of core/v1, without a status, from which a scenario reads the recorded facts.
func podObject(p *signals.Pod) any {
	o := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: types.UID(p.UID), Annotations: annotations(p)}}
	if p.Owner != "" && p.Owner != p.Key() {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "owner", UID: types.UID(p.Owner), Controller: new(true)}}
	}
	o.Spec.Priority, o.Spec.TerminationGracePeriodSeconds = new(p.Priority), p.TerminationGracePeriod
	for i := range p.Containers {
		k := &p.Containers[i]
		c := corev1.Container{Name: k.Name, Resources: corev1.ResourceRequirements{Requests: amounts(k.MemoryRequest, k.StorageRequest), Limits: amounts(signals.Quantity{}, k.StorageLimit)}}
		if k.Init {
			o.Spec.InitContainers = append(o.Spec.InitContainers, c)
		} else {
			o.Spec.Containers = append(o.Spec.Containers, c)
		}
	}
	for i := range p.Volumes {
		o.Spec.Volumes = append(o.Spec.Volumes, volumeOf(&p.Volumes[i]))
	}
	if q := p.PodLevelMemoryRequest; q != nil {
		o.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts(*q, signals.Quantity{})}
	}
	complete(&o, p)
	return struct {
		Metadata *metav1.ObjectMeta `json:"metadata"`
		Spec     *corev1.PodSpec    `json:"spec"`
	}{&o.ObjectMeta, &o.Spec}
}

// annotations returns those by which a scenario finds the protection and the choices of a pod.
func annotations(p *signals.Pod) map[string]string {
	set := map[string]string{}
	switch p.Protection {
	case signals.Static, signals.Own: // a scenario has no agent's own pod
		set[agentpods.SourceAnnotation] = "file"
	case signals.Mirror:
		set[agentpods.MirrorAnnotation] = p.UID
	case signals.OptedOut:
		set[agentpods.PolicyAnnotation] = "never"
	}
	if p.Last {
		set[agentpods.PolicyAnnotation] = "last"
	}
	if p.EvictionPriority != 0 {
		set[agentpods.PriorityAnnotation] = strconv.Itoa(int(p.EvictionPriority))
	}
	return set
}

// volumeOf returns a volume that counts as the recorded one.
func volumeOf(v *signals.Volume) corev1.Volume {
	o := corev1.Volume{Name: v.Name}
	switch {
	case v.SizeLimit.Value > 0 || v.Local:
		o.EmptyDir = &corev1.EmptyDirVolumeSource{}
		if v.SizeLimit.Value > 0 {
			o.EmptyDir.SizeLimit = new(quantityOf(v.SizeLimit))
		}
		if !v.Local {
			o.EmptyDir.Medium = corev1.StorageMediumMemory
		}
	default:
		o.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}
	}
	return o
}

// amounts returns requests or limits of what is not zero.
func amounts(memory, storage signals.Quantity) corev1.ResourceList {
	list := corev1.ResourceList{}
	if memory.Value > 0 {
		list[corev1.ResourceMemory] = quantityOf(memory)
	}
	if storage.Value > 0 {
		list[corev1.ResourceEphemeralStorage] = quantityOf(storage)
	}
	return list
}

func quantityOf(q signals.Quantity) resource.Quantity {
	if parsed, err := resource.ParseQuantity(q.Text); err == nil && q.Text != "" {
		return parsed
	}
	return *resource.NewQuantity(int64(q.Value), resource.BinarySI)
}

// complete adds what the requests of the containers lack of those of the pod: of sidecars, and of an
// overhead. An overhead counts beside a request only.
func complete(o *corev1.Pod, p *signals.Pod) {
	if len(o.Spec.Containers) == 0 {
		o.Spec.Containers = []corev1.Container{{Name: "unknown"}}
	}
	is, first := agentpods.Convert(o), &o.Spec.Containers[0].Resources
	for _, r := range []struct {
		name     corev1.ResourceName
		has, all signals.Quantity
	}{{corev1.ResourceMemory, is.MemoryRequest, p.MemoryRequest}, {corev1.ResourceEphemeralStorage, is.StorageRequest, p.StorageRequest}} {
		into := &first.Requests
		if r.has.Value > 0 {
			into = &o.Spec.Overhead
		}
		if r.all.Value <= r.has.Value {
			continue
		}
		if *into == nil {
			*into = corev1.ResourceList{}
		}
		(*into)[r.name] = *resource.NewQuantity(int64(r.all.Value-r.has.Value), resource.BinarySI)
	}
}
