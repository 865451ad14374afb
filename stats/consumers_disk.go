package stats

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// DiskConsumers finds the consumers of the node's filesystems outside of pods. It is safe for
// concurrent use.
type DiskConsumers struct {
	disks       *Disks
	directories *Directories
}

// NewDiskConsumers returns the consumers of filesystems. They are measured between the rounds for
// pods, which they do not delay.
func NewDiskConsumers(disks *Disks, directories *Directories) *DiskConsumers {
	return &DiskConsumers{disks, directories}
}

// UsedFilesystem is a filesystem with too little space or too few inodes.
type UsedFilesystem struct {
	Signal signals.Signal
	Used   signals.Amount   // in the unit of the signal
	Pods   signals.Consumer // all pods together
	Active []signals.Pod    // the pods, with their hostPaths
}

// nodeDirectories are directories of the node that programs outside of pods fill.
var nodeDirectories = []string{
	"/var/log", "/var/log/journal", "/var/lib/systemd/coredump", "/var/crash", "/var/cache", "/var/tmp", "/tmp", "/var/lib/etcd", "/home", "/root",
}

// runtimeTimeout bounds the wait for the container runtime.
const runtimeTimeout = 2 * time.Second

// Measure measures what holds a filesystem: hostPaths of pods, some directories of the node, the images
// of the runtime, and all pods together. The rest is unaccounted: other directories, deleted files
// that are open, reserved blocks and the filesystem's own. Each directory has a second, all of them 15
// s, and the next measurement continues. It returns soon after the end of ctx.
func (c *DiskConsumers) Measure(ctx context.Context, u UsedFilesystem) signals.Consumption {
	m := diskSearch{UsedFilesystem: u, inodes: u.Signal.Definition().Unit == signals.UnitInodes}
	on, known := c.disks.identity(u.Signal.Definition().Filesystem)
	if !known {
		m.unmeasured = append(m.unmeasured, "directories and images: the filesystem has not answered yet")
		return m.consumption()
	}
	m.add(u.Pods)
	images := c.images(ctx, &m, on)
	o := &c.directories.options
	excluded := append([]string{path.Join(o.KubeletRoot, "pods"), path.Clean(o.PodLogs)}, images...)
	m.list(append(slices.Clone(nodeDirectories), path.Clean(o.KubeletRoot), contentOf(images)), excluded)
	paths := make([]string, len(m.directories))
	for i, d := range m.directories {
		paths[i] = d.path
	}
	m.apply(c.directories.measureHost(ctx, on, paths, excluded))
	return m.consumption()
}

// images adds the images of the runtime if they are on the filesystem, and returns the directories that
// the runtime measures.
func (c *DiskConsumers) images(ctx context.Context, m *diskSearch, on identity) (measured []string) {
	ask := c.disks.options.Filesystems
	if ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	images, layers, err := ask(ctx)
	if err != nil {
		m.unmeasured = append(m.unmeasured, signals.PrintableName("images: "+err.Error()))
		return nil
	}
	for _, f := range slices.Concat(images, layers) {
		if path.IsAbs(f.Mountpoint) {
			measured = append(measured, path.Clean(f.Mountpoint))
		}
	}
	at, known := c.disks.identity(signals.Imagefs)
	switch {
	case !known || at != on || len(images) == 0:
	case !images[0].UsageKnown:
		m.unmeasured = append(m.unmeasured, "images: the container runtime does not report their usage")
	default:
		used := m.amount(signals.Bytes(images[0].UsedBytes), signals.Inodes(images[0].UsedInodes))
		ofPods := m.amount(c.directories.layerUsage())
		m.add(signals.Consumer{Name: "images and unreported layers", Kind: signals.ConsumerImages, Amount: used - min(used, ofPods)})
	}
	return measured
}

// layerUsage returns the usage of all writable layers in the last answer of the runtime, which counts as
// that of their pods.
func (d *Directories) layerUsage() (bytes signals.Bytes, inodes signals.Inodes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.counts(d.layers.at, time.Now()) {
		return 0, 0
	}
	for _, l := range d.layers.byID {
		bytes, inodes = bytes+signals.Bytes(max(l.WritableBytes.Value, 0)), inodes+signals.Inodes(max(l.WritableInodes.Value, 0))
	}
	return bytes, inodes
}

// contentOf returns the directory of containerd's compressed images, which its usage does not include;
// empty for another runtime.
func contentOf(images []string) string {
	for _, at := range images {
		if strings.HasPrefix(path.Base(at), "io.containerd.snapshotter.") {
			return path.Join(path.Dir(at), "io.containerd.content.v1.content")
		}
	}
	return ""
}
