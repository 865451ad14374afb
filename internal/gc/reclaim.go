package gc

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// Runtime is the part of the container runtime used here. Its methods return [cri.ErrNotFound] or
// nil for an absent object.
type Runtime interface {
	Sandboxes(ctx context.Context) ([]cri.Sandbox, error)
	Containers(ctx context.Context) ([]cri.Container, error)
	ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error)
	Images(ctx context.Context) ([]cri.Image, error)
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
	RemoveImage(ctx context.Context, id string) error
}

// PodState is the state of a pod.
type PodState uint8

// States of pods.
const (
	// Unknown: there is no such pod. It is removed, if [Owners.Complete].
	Unknown PodState = iota
	// Active: its containers run, or will run again.
	Active
	// Ended: succeeded or failed. Its containers never run again; their logs may be needed.
	Ended
	// Evicted: failed because the node needed its resources.
	Evicted
)

// Owners return the states of pods. Static pods are included, by the UID that the kubelet assigned
// and that their containers have.
type Owners interface {
	Pod(uid string) PodState
	// Complete is false as long as there may be unknown pods.
	Complete() bool
}

// Disk measures the file system of images and writable layers, without a cache, in bytes.
type Disk func(ctx context.Context) (available, capacity int64, err error)

// Reporter receives events and measurements. Its methods must not block.
type Reporter interface {
	// Event receives an event of the node: a reason of the kubelet's, and one line.
	Event(reason, message string)
	// Collected receives the number of removed images, for "space" or for their "age".
	Collected(kind string, n int)
	// Freed receives the bytes that Free, or a periodic round for space, has measured. Late
	// frees are included; concurrent writes are subtracted; never negative.
	Freed(what signals.Garbage, bytes int64)
}

// The kinds of [Reporter.Collected], as the kubelet's metric names them.
const (
	forSpace = "space"
	forAge   = "age"
)

// Options are the policies. With a limit of 0 no object is retained.
type Options struct {
	// ImageHigh and ImageLow are percentages of the image file system in use, 0 to 100. At
	// ImageHigh and above, unused images are removed until ImageLow is reached. An ImageHigh of 100
	// disables that; Free works nevertheless.
	ImageHigh, ImageLow int
	// MinimumImageTTL protects an image after it was first seen. For images present at the start,
	// the time counts from the first listing.
	MinimumImageTTL time.Duration
	// MaximumImageAge is the maximum time for which an image may be unused; 0 is unlimited.
	MaximumImageAge time.Duration

	// MinimumContainerTTL protects a dead container after its creation.
	MinimumContainerTTL time.Duration
	// MaximumDeadPerContainer is the maximum number of dead instances of each container of an
	// active pod, MaximumDead the maximum on the node; negative means unlimited.
	MaximumDeadPerContainer, MaximumDead int

	ImagePeriod     time.Duration // 0 is 5 minutes
	ContainerPeriod time.Duration // 0 is 1 minute
	CallTimeout     time.Duration // of each call of the runtime; 0 is 2 minutes, as the kubelet's

	// PodLogs is the directory with the logs of pods, such as /var/log/pods; if empty, no logs are
	// removed.
	PodLogs string
	// Keep returns images to retain although no container uses them, such as the sandbox image of
	// the runtime's configuration: by ID, tag or digest, as the runtime lists them. nil retains
	// none. It must not block.
	Keep func() []string
}

// Collector collects garbage of one node. Its methods are safe for concurrent use; Run is called
// once.
type Collector struct {
	runtime  Runtime
	disk     Disk
	owners   Owners
	reporter Reporter
	log      *slog.Logger
	options  Options
	waits    waits
	turns    *turns

	// Guarded by the turn.
	seen    sightings
	volumes map[string][]string // images mounted in containers, by the container's ID

	failures int // consecutive failures of image rounds; used by Run
}

// New returns a Collector. It is idle until Run, Free or RemovePod is called.
func New(r Runtime, d Disk, owners Owners, t Reporter, log *slog.Logger, o Options) *Collector {
	o.ImagePeriod = cmp.Or(o.ImagePeriod, 5*time.Minute)
	o.ContainerPeriod = cmp.Or(o.ContainerPeriod, time.Minute)
	o.CallTimeout = cmp.Or(o.CallTimeout, cri.DefaultTimeout)
	return &Collector{
		runtime: r, disk: d, owners: owners, reporter: t, log: log, options: o, waits: usualWaits,
		turns: newTurns(), seen: sightings{}, volumes: map[string][]string{},
	}
}

// states returns the current states of pods. Call it after listing, so that a pod created meanwhile
// is known.
func (c *Collector) states() func(uid string) PodState {
	if !c.owners.Complete() {
		return func(string) PodState { return Active }
	}
	return c.owners.Pod
}
