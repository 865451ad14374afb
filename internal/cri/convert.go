package cri

import (
	"math"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Every converter accepts nil and nil sub-messages. It returns the fault of an implausible message,
// "" for none.

// The kubelet's labels for the pod and the name of a container.
const (
	labelUID       = "io.kubernetes.pod.uid"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelName      = "io.kubernetes.pod.name"
)

// maxAmount is the largest plausible amount: no machine has as much.
const maxAmount = 1 << 60

func used(v *runtimeapi.UInt64Value) Used {
	if v == nil || v.GetValue() > maxAmount {
		return Used{}
	}
	return Used{int64(v.GetValue()), true}
}

// moment returns the time of nanoseconds since 1970; zero if there is none.
func moment(nanoseconds int64) time.Time {
	if nanoseconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

func sandbox(m *runtimeapi.PodSandbox) (Sandbox, string) {
	if m.GetId() == "" {
		return Sandbox{}, "a sandbox without an ID"
	}
	of := m.GetMetadata()
	return Sandbox{
		ID: m.GetId(), UID: of.GetUid(), Namespace: of.GetNamespace(), Name: of.GetName(), Attempt: of.GetAttempt(),
		Ready:   m.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		Created: moment(m.GetCreatedAt()), RuntimeHandler: m.GetRuntimeHandler(),
		Labels: m.GetLabels(), Annotations: m.GetAnnotations(),
	}, ""
}

var states = map[runtimeapi.ContainerState]State{
	runtimeapi.ContainerState_CONTAINER_CREATED: Created,
	runtimeapi.ContainerState_CONTAINER_RUNNING: Running,
	runtimeapi.ContainerState_CONTAINER_EXITED:  Exited,
}

func container(m *runtimeapi.Container) (Container, string) {
	switch {
	case m.GetId() == "":
		return Container{}, "a container without an ID"
	case m.GetPodSandboxId() == "":
		return Container{}, "container " + m.GetId() + " without a sandbox"
	}
	labels := m.GetLabels()
	return Container{
		ID: m.GetId(), SandboxID: m.GetPodSandboxId(), Name: m.GetMetadata().GetName(), Attempt: m.GetMetadata().GetAttempt(),
		State: states[m.GetState()], Created: moment(m.GetCreatedAt()),
		PodUID: labels[labelUID], PodNamespace: labels[labelNamespace], PodName: labels[labelName],
		Image: m.GetImage().GetImage(), ImageID: resolved(m.GetImageId(), m.GetImageRef()),
	}, ""
}

// resolved returns the image's ID. Runtimes older than the field return a reference, which is the
// ID with containerd.
func resolved(id, reference string) string {
	if id != "" {
		return id
	}
	return reference
}

func containerStatus(m *runtimeapi.ContainerStatus) (ContainerStatus, string) {
	if m.GetId() == "" {
		return ContainerStatus{}, "a status without an ID"
	}
	s := ContainerStatus{
		ID: m.GetId(), State: states[m.GetState()],
		Created: moment(m.GetCreatedAt()), Started: moment(m.GetStartedAt()), Finished: moment(m.GetFinishedAt()),
		ExitCode: m.GetExitCode(), Reason: m.GetReason(), LogPath: m.GetLogPath(),
		Image: m.GetImage().GetImage(), ImageID: resolved(m.GetImageId(), m.GetImageRef()),
	}
	for _, mount := range m.GetMounts() {
		s.Mounts = append(s.Mounts, Mount{
			HostPath: mount.GetHostPath(), ContainerPath: mount.GetContainerPath(), ReadOnly: mount.GetReadonly(),
			Image: resolved(mount.GetImage().GetImageRef(), mount.GetImage().GetImage()),
		})
	}
	return s, ""
}

func image(m *runtimeapi.Image) (Image, string) {
	switch {
	case m.GetId() == "":
		return Image{}, "an image without an ID"
	case m.GetSize() > maxAmount:
		return Image{}, "the size of image " + m.GetId()
	}
	return Image{ID: m.GetId(), Tags: m.GetRepoTags(), Digests: m.GetRepoDigests(), Size: int64(m.GetSize()), Pinned: m.GetPinned()}, ""
}

func filesystem(m *runtimeapi.FilesystemUsage) (Filesystem, string) {
	mountpoint := m.GetFsId().GetMountpoint()
	if mountpoint == "" {
		return Filesystem{}, "a filesystem without a mountpoint"
	}
	f := Filesystem{Mountpoint: mountpoint, Time: moment(m.GetTimestamp())}
	bytes, inodes := used(m.GetUsedBytes()), used(m.GetInodesUsed())
	if f.UsageKnown = bytes.Known && inodes.Known; f.UsageKnown {
		f.UsedBytes, f.UsedInodes = bytes.Value, inodes.Value
	}
	return f, ""
}

func containerStats(m *runtimeapi.ContainerStats) (ContainerStats, string) {
	of := m.GetAttributes()
	if of.GetId() == "" {
		return ContainerStats{}, "stats of a container without an ID"
	}
	return ContainerStats{
		ID: of.GetId(), Name: of.GetMetadata().GetName(), PodUID: of.GetLabels()[labelUID],
		Time: moment(m.GetMemory().GetTimestamp()), WorkingSet: used(m.GetMemory().GetWorkingSetBytes()),
		WritableTime: moment(m.GetWritableLayer().GetTimestamp()), WritableBytes: used(m.GetWritableLayer().GetUsedBytes()),
		WritableInodes: used(m.GetWritableLayer().GetInodesUsed()),
	}, ""
}

func podStats(m *runtimeapi.PodSandboxStats) (PodStats, string) {
	of := m.GetAttributes().GetMetadata()
	if of.GetUid() == "" {
		return PodStats{}, "stats of a pod without a UID"
	}
	on := m.GetLinux()
	s := PodStats{
		UID: of.GetUid(), Namespace: of.GetNamespace(), Name: of.GetName(), SandboxID: m.GetAttributes().GetId(),
		Time: moment(on.GetMemory().GetTimestamp()), WorkingSet: used(on.GetMemory().GetWorkingSetBytes()),
		Processes: used(on.GetProcess().GetProcessCount()),
	}
	for _, k := range on.GetContainers() {
		if c, fault := containerStats(k); fault == "" {
			s.Containers = append(s.Containers, c)
		}
	}
	return s, ""
}

var eventKinds = map[runtimeapi.ContainerEventType]EventKind{
	runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT: ContainerCreated,
	runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT: ContainerStarted,
	runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT: ContainerStopped,
	runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT: ContainerDeleted,
}

func event(m *runtimeapi.ContainerEventResponse) Event {
	return Event{
		Kind: eventKinds[m.GetContainerEventType()], ContainerID: m.GetContainerId(),
		PodUID: m.GetPodSandboxStatus().GetMetadata().GetUid(), At: moment(m.GetCreatedAt()),
	}
}

// wholeSeconds returns the seconds of a grace period, rounded up: no container gets less time than
// requested.
func wholeSeconds(d time.Duration) int64 {
	return int64(math.Ceil(max(d, 0).Seconds()))
}
