package cri

import "time"

// A Runtime is who answers.
type Runtime struct {
	Name    string // such as containerd
	Version string
	API     string // of the CRI, such as v1
}

// A Sandbox is what a pod's containers run in.
type Sandbox struct {
	ID             string
	UID            string // of the pod; empty if something other than a kubelet made it without one
	Namespace      string
	Name           string
	Attempt        uint32
	Ready          bool
	Created        time.Time // zero if the runtime does not know: then its age is not known
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
	Created   time.Time // zero if the runtime does not know: then its age is not known
	// PodUID, PodNamespace and PodName are by the labels that a kubelet sets;
	// empty for containers that something else made.
	PodUID       string
	PodNamespace string
	PodName      string
	// Image is as the container names it, ImageID as the runtime resolved it.
	Image   string
	ImageID string
}

// A ContainerStatus is what the runtime knows about one container.
type ContainerStatus struct {
	ID    string
	State State
	// Created, Started and Finished are zero where that has not happened, or is
	// not known.
	Created, Started, Finished time.Time
	ExitCode                   int32
	Reason                     string // such as Completed, Error, OOMKilled
	LogPath                    string // on the host; empty if there is no log
	Image                      string // as the container names it
	ImageID                    string // as the runtime resolved it
	Mounts                     []Mount
}

// A Mount of a container.
type Mount struct {
	HostPath      string // empty for an image
	ContainerPath string
	ReadOnly      bool
	Image         string // of an image volume: the image in use; empty where the runtime does not tell
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
	UsageKnown bool // whether the runtime told both; they are 0 if not
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
	PodUID     string    // by the label that a kubelet sets
	Time       time.Time // of the memory sample; zero if there is none
	WorkingSet Used      // bytes
	// Writable is the container's writable layer. Runtimes look at it now and
	// then, and tell what they saw last: at WritableTime, zero if they do not say.
	WritableTime   time.Time
	WritableBytes  Used
	WritableInodes Used
}

// PodStats is what one pod uses.
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
	// Reconnected is of no container: the stream has begun, and what happened
	// before may have gone unheard.
	Reconnected
)
