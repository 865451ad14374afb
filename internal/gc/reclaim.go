package gc

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// A Runtime is what is asked of the container runtime. Something that is gone
// already is [cri.ErrNotFound] or no error.
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

// PodState is what is known of a pod.
type PodState uint8

// The states of pods.
const (
	// Unknown: there is no such pod. It is gone, if [Owners.Complete].
	Unknown PodState = iota
	// Active: its containers run, or will run again.
	Active
	// Ended: succeeded or failed; its containers never run again, their logs may
	// be wanted.
	Ended
	// Evicted: failed because the node needed what it held.
	Evicted
)

// Owners say what is known of pods. Static pods count: they are known by the UID
// that the kubelet gave them, the one their containers bear.
type Owners interface {
	Pod(uid string) PodState
	// Complete is false as long as there may be pods that are not known yet.
	Complete() bool
}

// A Disk measures the filesystem of images and writable layers, freshly, in
// bytes.
type Disk func(ctx context.Context) (available, capacity int64, err error)

// A Teller tells others. Nothing in it may wait.
type Teller interface {
	// Event is for the node's events: a reason of the kubelet's, and one line.
	Event(reason, message string)
	// Collected says that n images were removed: for "space" or for their "age".
	Collected(kind string, n int)
	// Freed says what a relief, or a periodic round for space, measured. Late
	// frees are in it; what others wrote meanwhile is subtracted; never negative.
	Freed(what signals.Garbage, bytes int64)
}

// The kinds of [Teller.Collected], as the kubelet's metric names them.
const (
	forSpace = "space"
	forAge   = "age"
)

// Options are the policies. The zero value of a limit means none is kept.
type Options struct {
	// ImageHigh and ImageLow are percents of the image filesystem in use: from
	// high on, unused images go until low is reached. A high of 100 switches that
	// off; reliefs work nevertheless.
	ImageHigh, ImageLow int
	// MinimumImageTTL keeps an image after it was first seen; those that were
	// there before the first look count from it.
	MinimumImageTTL time.Duration
	// MaximumImageAge is how long an image may go unused; 0 is for ever.
	MaximumImageAge time.Duration

	// MinimumContainerTTL keeps a dead container after its creation.
	MinimumContainerTTL time.Duration
	// MaximumDeadPerContainer is how many dead instances are kept of each
	// container of an active pod, MaximumDead how many on the node; negative
	// means any number.
	MaximumDeadPerContainer, MaximumDead int

	ImagePeriod     time.Duration // 0 is 5 minutes
	ContainerPeriod time.Duration // 0 is 1 minute
	CallTimeout     time.Duration // of each call of the runtime; 0 is 2 minutes, as the kubelet's

	// PodLogs is the directory with the logs of pods, such as /var/log/pods;
	// empty leaves them alone.
	PodLogs string
	// Keep names images that stay though no container names them, such as the
	// sandbox image of the runtime's configuration: by ID, tag or digest, as the
	// runtime lists them. nil keeps none. It must not wait.
	Keep func() []string
}

// A Collector collects waste of one node. Its methods are safe for concurrent
// use; Run runs once.
type Collector struct {
	runtime Runtime
	disk    Disk
	owners  Owners
	tell    Teller
	log     *slog.Logger
	options Options
	turns   *turns

	// Of whoever has the turn.
	seen    sightings
	volumes map[string][]string // images mounted in containers, by the container's ID

	failures int // of image rounds, in a row; Run's
}

// New makes a Collector. It does nothing before Run, Relieve or RemovePod.
func New(r Runtime, d Disk, owners Owners, t Teller, log *slog.Logger, o Options) *Collector {
	o.ImagePeriod = cmp.Or(o.ImagePeriod, 5*time.Minute)
	o.ContainerPeriod = cmp.Or(o.ContainerPeriod, time.Minute)
	o.CallTimeout = cmp.Or(o.CallTimeout, cri.DefaultTimeout)
	return &Collector{
		runtime: r, disk: d, owners: owners, tell: t, log: log, options: o,
		turns: newTurns(), seen: sightings{}, volumes: map[string][]string{},
	}
}

// states are what the owners know now: ask after listing, so that a pod that
// came meanwhile is known.
func (c *Collector) states() func(uid string) PodState {
	if !c.owners.Complete() {
		return func(string) PodState { return Active }
	}
	return c.owners.Pod
}
