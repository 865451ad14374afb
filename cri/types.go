package cri

import "time"

// A Sandbox is what a pod's containers run in.
type Sandbox struct {
	ID             string
	UID            string // of the pod
	Namespace      string
	Name           string
	Attempt        uint32
	Ready          bool
	Created        time.Time
	RuntimeHandler string
	Labels         map[string]string
	Annotations    map[string]string
}

// State is where a container is in its life.
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

// A Container of a pod, running or dead.
type Container struct {
	ID        string
	SandboxID string
	Name      string
	Attempt   uint32
	State     State
	Created   time.Time
	// PodUID, PodNamespace and PodName are by the labels that a kubelet sets;
	// empty for containers that something else made.
	PodUID       string
	PodNamespace string
	PodName      string
	// Image is as the container names it, ImageID as the runtime resolved it.
	Image   string
	ImageID string
}

// An Image that the runtime holds.
type Image struct {
	ID      string
	Tags    []string
	Digests []string
	Size    int64 // bytes as the runtime counts them; layers that images share count for each
	Pinned  bool  // by the runtime: never to be removed
}

// A Filesystem is where the runtime keeps images or writable layers.
type Filesystem struct {
	Mountpoint string // a directory on the filesystem
	Time       time.Time
	UsedBytes  int64
	UsedInodes int64
}

// Used is an amount that the runtime may not have told.
type Used struct {
	Value int64
	Known bool
}

// ContainerStats is what one running container uses.
type ContainerStats struct {
	ID         string
	Name       string
	Time       time.Time // of the memory sample; zero if there is none
	WorkingSet Used      // bytes
	// Writable is the container's writable layer.
	WritableBytes  Used
	WritableInodes Used
}

// PodStats is what one pod uses.
type PodStats struct {
	UID        string
	Namespace  string
	Name       string
	Time       time.Time
	WorkingSet Used // bytes, of the pod's cgroup
	Processes  Used
	Containers []ContainerStats
}

// An Event is that a container or a sandbox has changed.
type Event struct {
	Kind        EventKind
	ContainerID string // the sandbox's ID for events of a sandbox
	PodUID      string
	At          time.Time
}

// EventKind says what happened to a container.
type EventKind uint8

// The kinds of events.
const (
	OtherEvent EventKind = iota
	ContainerCreated
	ContainerStarted
	ContainerStopped
	ContainerDeleted
)
