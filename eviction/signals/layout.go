package signals

import "fmt"

// A Filesystem is one of the three a kubelet tells apart.
type Filesystem uint8

// The filesystems that signals speak of.
const (
	NoFilesystem Filesystem = iota
	Nodefs                  // kubelet root directory: logs, local volumes
	Imagefs                 // container images, and writable layers unless split
	Containerfs             // writable layers
	filesystemCount
)

// A Layout says which of the three filesystems share a device.
type Layout uint8

// The layouts of filesystems.
const (
	Single    Layout = iota // everything on one device
	Dedicated               // images and writable layers on a device of their own
	Split                   // images on a device of their own, writable layers on nodefs
	layoutCount
)

var layoutNames = [layoutCount]string{"single", "dedicated", "split"}

func (l Layout) String() string { return layoutNames[l] }

// ParseLayout returns the layout of that name.
func ParseLayout(name string) (Layout, error) {
	for i, n := range layoutNames {
		if n == name {
			return Layout(i), nil
		}
	}
	return 0, fmt.Errorf("unknown layout of filesystems %q: use single, dedicated or split", name)
}

// A Garbage is node-level waste that can be collected before a pod is
// evicted.
type Garbage uint8

// The reclaimers, in the order in which they run.
const (
	DeadContainers Garbage = iota
	UnusedImages
)

var reclaimerNames = [...]string{"containers", "images"}

func (r Garbage) String() string { return reclaimerNames[r] }

// Storage is a set of the places where a pod keeps bytes and inodes.
type Storage uint8

// The places a pod's disk usage is made of.
const (
	Rootfs       Storage = 1 << iota // writable layers of its containers
	Logs                             // logs of its containers
	LocalVolumes                     // emptyDir on disk, configMap, gitRepo, hostPath
)

// Has reports whether the set holds the place.
func (s Storage) Has(place Storage) bool { return s&place != 0 }

// A FilesystemPlan is what pressure on a filesystem leads to in a layout.
type FilesystemPlan struct {
	Reclaim []Garbage
	Measure Storage // which of a pod's usage can relieve it
}

var (
	both       = []Garbage{DeadContainers, UnusedImages}
	containers = []Garbage{DeadContainers}
	images     = []Garbage{UnusedImages}
)

// plans is the table of filesystem pressure. A nodefs without reclaimers in
// the dedicated layout is the kubelet's choice: nothing it can collect lives
// there.
var plans = [layoutCount][filesystemCount]FilesystemPlan{
	Single: {
		Nodefs:      {both, Rootfs | Logs | LocalVolumes},
		Imagefs:     {both, Rootfs | Logs | LocalVolumes},
		Containerfs: {both, Rootfs | Logs | LocalVolumes},
	},
	Dedicated: {
		Nodefs:      {nil, Logs | LocalVolumes},
		Imagefs:     {both, Rootfs},
		Containerfs: {both, Rootfs},
	},
	Split: {
		Nodefs:      {containers, Rootfs | Logs | LocalVolumes},
		Imagefs:     {images, 0}, // images are never measured per pod
		Containerfs: {containers, Rootfs | Logs | LocalVolumes},
	},
}

// In returns what pressure on the signal's filesystem leads to in the layout;
// empty for memory and PIDs, which nothing but a pod's end relieves.
func (s Signal) In(l Layout) FilesystemPlan { return plans[l][table[s].Filesystem] }

// ContainerfsFollows returns the signal whose thresholds a containerfs signal
// takes over in the layout; ok is false for other signals.
func (s Signal) ContainerfsFollows(l Layout) (followed Signal, ok bool) {
	nodefs := l != Dedicated
	switch {
	case s == ContainerfsAvailable && nodefs:
		return NodefsAvailable, true
	case s == ContainerfsAvailable:
		return ImagefsAvailable, true
	case s == ContainerfsInodesFree && nodefs:
		return NodefsInodesFree, true
	case s == ContainerfsInodesFree:
		return ImagefsInodesFree, true
	}
	return 0, false
}
