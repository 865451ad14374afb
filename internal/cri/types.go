package cri

import "time"

// Runtime identifies a container runtime.
type Runtime struct {
	Name    string // such as containerd
	Version string
	API     string // of the CRI, such as v1
}

// Sandbox is the environment of a pod's containers.
type Sandbox struct {
	ID             string
	UID            string // of the pod; empty if another program than a kubelet created it without one
	Namespace      string
	Name           string
	Attempt        uint32
	Ready          bool
	Created        time.Time // zero if the runtime does not report it: the age is not known
	RuntimeHandler string
	Labels         map[string]string
	Annotations    map[string]string
}

// State is the state of a container.
type State uint8

// The states of containers.
const (
	UnknownState State = iota
	Created
	Running
	Exited
)

func (s State) String() string {
	return [...]string{"unknown", "created", "running", "exited"}[s]
}

// Container is a container of a pod, running or dead.
type Container struct {
	ID        string
	SandboxID string
	Name      string
	Attempt   uint32
	State     State
	Created   time.Time // zero if the runtime does not report it: the age is not known
	// PodUID, PodNamespace and PodName come from the kubelet's labels; empty for containers of
	// other programs.
	PodUID       string
	PodNamespace string
	PodName      string
	// Image is the name in the container's configuration, ImageID the ID that the runtime resolved.
	Image   string
	ImageID string
}

// ContainerStatus is the runtime's status of one container.
type ContainerStatus struct {
	ID    string
	State State
	// Created, Started and Finished are zero if that has not happened, or is not known.
	Created, Started, Finished time.Time
	ExitCode                   int32
	Reason                     string // such as Completed, Error, OOMKilled
	LogPath                    string // on the host; empty if there is no log
	Image                      string // the name in the container's configuration
	ImageID                    string // the ID that the runtime resolved
	Mounts                     []Mount
}

// Mount is a mount of a container.
type Mount struct {
	HostPath      string // empty for an image
	ContainerPath string
	ReadOnly      bool
	Image         string // of an image volume: the image in use; empty if the runtime does not report it
}

// Image is an image in the storage of the runtime.
type Image struct {
	ID      string
	Tags    []string
	Digests []string
	Size    int64 // bytes by the runtime's count, which includes shared layers for each image
	Pinned  bool  // by the runtime: must not be removed
}

// Filesystem is a filesystem with the runtime's images or writable layers.
type Filesystem struct {
	Mountpoint string // a directory on the filesystem
	Time       time.Time
	UsedBytes  int64
	UsedInodes int64
	UsageKnown bool // whether the runtime reported both; they are 0 if not
}

// Used is an amount that the runtime may not have reported.
type Used struct {
	Value int64
	Known bool
}

// ContainerStats is the usage of one container. containerd reports the writable layers of dead ones
// too, CRI-O only running containers.
type ContainerStats struct {
	ID         string
	Name       string
	PodUID     string    // by the kubelet's label
	Time       time.Time // of the memory sample; zero if there is none
	WorkingSet Used      // bytes
	// Writable is the container's writable layer. Runtimes measure it at intervals and report the
	// latest values, measured at WritableTime; zero if they do not report that.
	WritableTime   time.Time
	WritableBytes  Used
	WritableInodes Used
}

// PodStats is the usage of one pod.
type PodStats struct {
	UID        string
	Namespace  string
	Name       string
	SandboxID  string
	Time       time.Time // of the memory sample; zero if there is none
	WorkingSet Used      // bytes, of the pod's cgroup
	Processes  Used      // containerd counts those of containers, not the sandbox's own
	Containers []ContainerStats
}

// Event is a change of a container or a sandbox.
type Event struct {
	Kind        EventKind
	ContainerID string // the sandbox's ID for events of a sandbox
	PodUID      string
	At          time.Time
}

// EventKind is the kind of a change.
type EventKind uint8

// The kinds of events.
const (
	OtherEvent EventKind = iota
	ContainerCreated
	ContainerStarted
	ContainerStopped
	ContainerDeleted
	// Reconnected belongs to no container: the stream has begun, and earlier events may have been
	// lost.
	Reconnected
)
