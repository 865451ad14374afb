package stats

import (
	"context"
	"errors"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// DiskOptions say where the node's filesystems are.
type DiskOptions struct {
	// HostRoot is where the host's root directory is seen: "/" if empty. All
	// other paths are the host's.
	HostRoot string
	// NodeDirectory is a directory of nodefs: the kubelet's root directory, or
	// where pods would lie without a kubelet.
	NodeDirectory string
	// Filesystems asks the container runtime where images and writable layers
	// lie; cri's clients have such a method. Nil says that everything lies on
	// the filesystem of NodeDirectory.
	Filesystems func(context.Context) (images, containers []cri.Filesystem, err error)
	// Timeout is how long an observation waits for the kernel at most; 20 ms if
	// it is 0.
	Timeout time.Duration
}

// Times that nobody configures.
const (
	defaultDiskTimeout = 20 * time.Millisecond
	// availableWait is the patience of those who do nothing else meanwhile.
	availableWait = time.Second
)

// Disks observes nodefs, imagefs and containerfs. It is safe for concurrent
// use. Nothing is opened or kept open: a filesystem that is watched can be
// unmounted, and one that is mounted over it is seen at the next look.
//
// containerfs is where the runtime says that writable layers lie. The kubelet
// copies imagefs there, which comes to the same where both are one filesystem,
// that is with every containerd.
type Disks struct {
	options DiskOptions
	probes  [3]*probe

	mu     sync.Mutex
	placed [diskFilesystems]diskSource
}

// diskFilesystems is the size of an array indexed by filesystem.
const diskFilesystems = int(signals.Containerfs) + 1

// A diskSource is the probe that answers for a filesystem, or why there is none.
type diskSource struct {
	probe *probe
	err   error
}

var errNotTold = errors.New("the container runtime has not told yet where it keeps images and writable layers")

// OpenDisks prepares to observe; it asks nobody anything. Where there is a
// runtime to ask, let [Disks.Run] run beside.
func OpenDisks(o DiskOptions) *Disks {
	return newDisks(o, func(dir string) (filesystem, error) { return statFilesystem(o.HostRoot, dir) })
}

func newDisks(o DiskOptions, ask func(dir string) (filesystem, error)) *Disks {
	if o.Timeout <= 0 {
		o.Timeout = defaultDiskTimeout
	}
	d := &Disks{options: o}
	for i := range d.probes {
		d.probes[i] = &probe{ask: ask}
	}
	node := d.probes[0]
	node.dir = o.NodeDirectory
	d.placed[signals.Nodefs].probe = node
	if o.Filesystems == nil {
		d.placed[signals.Imagefs].probe, d.placed[signals.Containerfs].probe = node, node
	} else {
		d.fail(errNotTold)
	}
	return d
}

func (d *Disks) sources() [diskFilesystems]diskSource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placed
}

// Observe fills in the six signals of disks, each with the time at which the
// kernel was asked. It never waits longer than [DiskOptions.Timeout]: what has
// not answered is unknown. An answer that comes late serves the next
// observation, with its own time, for at most a minute. About 30 µs
// while nothing hangs.
func (d *Disks) Observe(into *signals.Observations) {
	ctx, cancel := context.WithTimeout(context.Background(), d.options.Timeout)
	defer cancel()
	asked := time.Now()
	sources := d.sources()
	for _, at := range sources {
		if at.probe != nil {
			at.probe.begin(asked) // all are asked before the first is waited for
		}
	}
	var answers [diskFilesystems]answer
	for fs, at := range sources {
		if answers[fs].err = at.err; at.probe != nil {
			answers[fs] = at.probe.answer(ctx, asked)
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

// Available is the room on a filesystem in bytes, for a collector that wants to
// know what it has freed: the answer is never older than the call, unless it is
// a late one. It waits up to a second.
func (d *Disks) Available(fs signals.Filesystem) (available, capacity int64, err error) {
	if fs == signals.NoFilesystem || int(fs) >= diskFilesystems {
		return 0, 0, errors.New("ask for the room on a filesystem: use nodefs, imagefs or containerfs")
	}
	at := d.sources()[fs]
	if at.probe == nil {
		return 0, 0, at.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), availableWait)
	defer cancel()
	a := at.probe.answer(ctx, time.Now())
	return int64(a.available), int64(a.total), a.err
}

// Layout says which of the three share a filesystem; ok is false until each of
// them has answered once. As with the kubelet, images and writable layers that
// do not share one are a split layout, wherever the layers lie; if not on
// nodefs, containerfs is watched all the same, as what it is.
func (d *Disks) Layout() (l signals.Layout, ok bool) {
	if d.options.Filesystems == nil {
		return signals.Single, true
	}
	var is [diskFilesystems]identity
	for fs, at := range d.sources() {
		if fs == int(signals.NoFilesystem) {
			continue
		}
		if at.probe == nil {
			return 0, false
		}
		if is[fs], ok = at.probe.is(); !ok {
			return 0, false
		}
	}
	switch {
	case is[signals.Imagefs] != is[signals.Containerfs]:
		return signals.Split, true
	case is[signals.Imagefs] != is[signals.Nodefs]:
		return signals.Dedicated, true
	}
	return signals.Single, true
}
