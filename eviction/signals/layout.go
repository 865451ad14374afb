package signals

import "fmt"

// Filesystem is one of the three filesystems that a kubelet distinguishes.
type Filesystem uint8

// The filesystems of the signals.
const (
	NoFilesystem Filesystem = iota
	Nodefs                  // kubelet root directory: logs, local volumes
	Imagefs                 // container images, and writable layers unless split
	Containerfs             // writable layers
	filesystemCount
)

// Layout is which of the three filesystems share a device.
type Layout uint8

// The layouts of filesystems.
const (
	Single    Layout = iota // everything on one device
	Dedicated               // images and writable layers on their own device
	Split                   // images on their own device, writable layers on nodefs
	layoutCount
)

var layoutNames = [layoutCount]string{"single", "dedicated", "split"}

func (l Layout) String() string { return layoutNames[l] }

// ParseLayout returns the layout of that name. It returns an error for an unknown name.
func ParseLayout(name string) (Layout, error) {
	for i, n := range layoutNames {
		if n == name {
			return Layout(i), nil
		}
	}
	return 0, fmt.Errorf("unknown layout of filesystems %q: use single, dedicated or split", name)
}

// Garbage is a kind of node-level garbage that can be collected before a pod is evicted.
type Garbage uint8

// The kinds of garbage, in the order of their collection.
const (
	DeadContainers Garbage = iota
	UnusedImages
)

var reclaimerNames = [...]string{"containers", "images"}

func (r Garbage) String() string { return reclaimerNames[r] }

// Storage is a set of the places where a pod stores bytes and inodes.
type Storage uint8

// The places of a pod's disk usage.
const (
	Rootfs       Storage = 1 << iota // writable layers of its containers
	Logs                             // logs of its containers
	LocalVolumes                     // emptyDir on disk, configMap, gitRepo, hostPath
)

// Has reports whether the set contains the place.
func (s Storage) Has(place Storage) bool { return s&place != 0 }

// FilesystemPlan is the reaction to pressure on a filesystem in a layout.
type FilesystemPlan struct {
	Reclaim []Garbage
	Measure Storage // the parts of a pod's usage that can relieve it
}

var (
	both       = []Garbage{DeadContainers, UnusedImages}
	containers = []Garbage{DeadContainers}
	images     = []Garbage{UnusedImages}
)

// plans is the table of filesystem pressure. As in the kubelet, nodefs has no garbage in the
// dedicated layout, since none of it is stored there.
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

// In returns the reaction to pressure on the signal's filesystem in the layout. It is empty for
// memory and PIDs, which only the end of a pod relieves.
func (s Signal) In(l Layout) FilesystemPlan { return plans[l][table[s].Filesystem] }

// ContainerfsFollows returns the signal with the thresholds for a containerfs signal in the
// layout. For other signals ok is false.
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
