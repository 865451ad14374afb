package stats

import (
	"context"
	"errors"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// DiskOptions configure the node's filesystems.
type DiskOptions struct {
	// HostRoot is the path of the host's root directory, "/" if empty. All other paths are
	// relative to the host's root.
	HostRoot string
	// NodeDirectory is a directory on nodefs: the kubelet's root directory, or the equivalent
	// on a node without a kubelet.
	NodeDirectory string
	// Filesystems returns the container runtime's filesystems for images and writable layers;
	// cri's clients implement it. If it is nil, both are on the filesystem of NodeDirectory.
	Filesystems func(context.Context) (images, containers []cri.Filesystem, err error)
	// Timeout is the maximum wait of an observation for the kernel; 20 ms if it is 0.
	Timeout time.Duration
}

const (
	defaultDiskTimeout   = 20 * time.Millisecond
	defaultAvailableWait = time.Second
)

// Disks observes nodefs, imagefs and containerfs. It is safe for concurrent use. It holds no
// file open, so an observed filesystem can be unmounted, and one mounted over it is observed at
// the next check.
//
// containerfs is the filesystem that the runtime reports for writable layers. The kubelet
// copies imagefs there. Both give the same result while images and layers share a filesystem,
// as with every containerd.
type Disks struct {
	options DiskOptions
	probes  [3]*probe
	// availableWait is the maximum wait of [Disks.Available], which runs outside of the agent's loop.
	availableWait time.Duration

	mu     sync.Mutex
	placed [diskFilesystems]diskSource
}

// diskFilesystems is the size of an array indexed by filesystem.
const diskFilesystems = int(signals.Containerfs) + 1

// diskSource is the probe of a filesystem, or the cause of its absence.
type diskSource struct {
	probe *probe
	err   error
}

var errNotReported = errors.New("the container runtime has not reported its image filesystem yet")

// OpenDisks configures Disks and queries nothing. With a container runtime, run [Disks.Run]
// beside it.
func OpenDisks(o DiskOptions) *Disks {
	return newDisks(o, func(dir string) (filesystem, error) { return statFilesystem(o.HostRoot, dir) })
}

func newDisks(o DiskOptions, query func(dir string) (filesystem, error)) *Disks {
	if o.Timeout <= 0 {
		o.Timeout = defaultDiskTimeout
	}
	d := &Disks{options: o, availableWait: defaultAvailableWait}
	for i := range d.probes {
		d.probes[i] = &probe{query: query}
	}
	node := d.probes[0]
	node.dir = o.NodeDirectory
	d.placed[signals.Nodefs].probe = node
	if o.Filesystems == nil {
		d.placed[signals.Imagefs].probe, d.placed[signals.Containerfs].probe = node, node
	} else {
		d.fail(errNotReported)
	}
	return d
}

func (d *Disks) sources() [diskFilesystems]diskSource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placed
}

// Observe fills in the six signals of disks, each with the time of its request to the kernel.
// It waits at most [DiskOptions.Timeout]; a filesystem without an answer by then is unknown. A
// late answer serves the next observation, with its own time, for at most one minute. It takes
// about 30 µs while nothing hangs.
func (d *Disks) Observe(into *signals.Observations) {
	ctx, cancel := context.WithTimeout(context.Background(), d.options.Timeout)
	defer cancel()
	requested := time.Now()
	sources := d.sources()
	for _, at := range sources {
		if at.probe != nil {
			at.probe.begin(requested) // start all requests before waiting for the first
		}
	}
	var answers [diskFilesystems]answer
	for fs, at := range sources {
		if answers[fs].err = at.err; at.probe != nil {
			answers[fs] = at.probe.answer(ctx, requested)
		}
	}
	for s := range signals.All {
		if def := s.Definition(); def.Filesystem != signals.NoFilesystem {
			into[s] = answers[def.Filesystem].observation(def.Unit)
		}
	}
}

func (a *answer) observation(unit signals.Unit) signals.Observation {
	switch {
	case a.err != nil:
		return signals.Unknown(a.err.Error())
	case unit == signals.UnitInodes:
		return signals.Observed(a.inodesFree, a.inodes, a.at)
	}
	return signals.Observed(a.available, a.total, a.at)
}

// Available returns the available and total bytes of a filesystem, for a collector that
// measures its effect. The answer is never older than the call, unless it is a late one. It
// waits at most one second. Returns an error if fs is no filesystem, has no known mountpoint,
// or does not answer.
func (d *Disks) Available(fs signals.Filesystem) (available, capacity int64, err error) {
	if fs == signals.NoFilesystem || int(fs) >= diskFilesystems {
		return 0, 0, errors.New("measure the space of a filesystem: use nodefs, imagefs or containerfs")
	}
	at := d.sources()[fs]
	if at.probe == nil {
		return 0, 0, at.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.availableWait)
	defer cancel()
	a := at.probe.answer(ctx, time.Now())
	return int64(a.available), int64(a.total), a.err
}

// identity returns the identity of a filesystem; false until it has answered once.
func (d *Disks) identity(fs signals.Filesystem) (identity, bool) {
	at := d.sources()[fs]
	if at.probe == nil {
		return identity{}, false
	}
	return at.probe.knownIdentity()
}

// Layout reports which of the three filesystems are shared; ok is false until each has answered
// once. As in the kubelet, images and writable layers on different filesystems are a split
// layout, wherever the layers are. containerfs is observed there even if it is not nodefs.
func (d *Disks) Layout() (l signals.Layout, ok bool) {
	if d.options.Filesystems == nil {
		return signals.Single, true
	}
	var identities [diskFilesystems]identity
	for fs, at := range d.sources() {
		if fs == int(signals.NoFilesystem) {
			continue
		}
		if at.probe == nil {
			return 0, false
		}
		if identities[fs], ok = at.probe.knownIdentity(); !ok {
			return 0, false
		}
	}
	switch {
	case identities[signals.Imagefs] != identities[signals.Containerfs]:
		return signals.Split, true
	case identities[signals.Imagefs] != identities[signals.Nodefs]:
		return signals.Dedicated, true
	}
	return signals.Single, true
}
