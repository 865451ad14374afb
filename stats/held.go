package stats

import (
	"path"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Bounds of one reading of the held memory.
const (
	maxHeldPods = 2000
	maxHeldTime = 100 * time.Millisecond
)

// HeldReader reads the memory that all pods hold, after a kill by the kernel. It opens files when it is
// called and shares nothing with the loop, so that it may be used beside it. A reading takes about twice
// as long as [Pods.MeasureMemory]. It is not safe for concurrent use.
type HeldReader struct {
	h          cgroup.Hierarchy
	places     *cgroup.PodPlaces
	nodeCgroup string
	procRoot   string
	limit      time.Duration // maximum time for the pods of one reading
	buf        *cgroup.Buffer
}

// NewHeldReader returns a reader for the pods at places, of the node with that cgroup.
func NewHeldReader(h cgroup.Hierarchy, places *cgroup.PodPlaces, nodeCgroup, procRoot string) *HeldReader {
	return &HeldReader{h, places, path.Join("/", nodeCgroup), procRoot, maxHeldTime, cgroup.NewBuffer()}
}

// Read reads the memory held by all pods and their containers, and the totals. Its time is that of the
// end. An unreadable amount is unknown. If the pods cannot be listed, or not all be read in time, the
// result is not complete.
func (r *HeldReader) Read() (found signals.Holdings) {
	begun := time.Now()
	found.Doubt = signals.Bytes(unnoticed)
	defer func() { found.At = time.Now() }()
	tree, err := r.places.Open()
	if err != nil {
		return found
	}
	pods, err := tree.Pods()
	found.Complete = err == nil && len(pods) <= maxHeldPods
	for _, p := range pods[:min(len(pods), maxHeldPods)] {
		if time.Since(begun) > r.limit {
			found.Complete = false
			break
		}
		if held, there := r.pod(p); there {
			found.Pods = append(found.Pods, held)
		}
	}
	for _, at := range append(tree.Classes(), r.nodeCgroup) { // after the pods, the counters of which they have
		if held := r.total(at); held.Known {
			found.Totals = append(found.Totals, signals.CgroupHoldings{Path: at, Held: held})
		}
	}
	return found
}

// pod reads one pod, its containers first: that updates the counters of the pod. there is false if it
// was removed meanwhile.
func (r *HeldReader) pod(p cgroup.Pod) (held signals.PodHoldings, there bool) {
	held = signals.PodHoldings{UID: p.UID, Path: p.Path, Containers: []signals.ContainerHoldings{}}
	for _, c := range p.Containers {
		u, err := memoryUsage(r.h, c.Path, r.buf)
		if cgroup.IsGone(err) {
			continue
		}
		held.Containers = append(held.Containers, signals.ContainerHoldings{Name: c.Name, Held: heldOf(u, err)})
	}
	u, err := memoryUsage(r.h, p.Path, r.buf)
	held.Held = heldOf(u, err)
	return held, !cgroup.IsGone(err)
}

// memoryUsage returns the memory usage of a cgroup. It opens its files, and closes them.
func memoryUsage(h cgroup.Hierarchy, at string, buf *cgroup.Buffer) (cgroup.MemoryUsage, error) {
	m, err := cgroup.OpenMemoryWith(h, at, buf)
	if err != nil {
		return cgroup.MemoryUsage{}, err
	}
	defer m.Close()
	return m.Read()
}

// total returns the memory held in a cgroup and below it.
func (r *HeldReader) total(within string) signals.Measured[signals.Bytes] {
	if within == "/" {
		held, err := r.machine()
		return signals.Measured[signals.Bytes]{Value: held, Known: err == nil}
	}
	u, err := memoryUsage(r.h, within, r.buf)
	return heldOf(u, err)
}

// freeLines lists the lines of /proc/meminfo for memory that is free, or page cache of files on disk.
var freeLines = []string{"MemFree:", "Active(file):", "Inactive(file):"}

// machine returns the memory of the machine without free memory and page cache.
func (r *HeldReader) machine() (signals.Bytes, error) {
	text, err := r.text(filepath.Join(r.procRoot, "meminfo"))
	if err != nil {
		return 0, err
	}
	held, err := ParseMemTotal(text)
	for _, line := range freeLines {
		if err != nil {
			return 0, err
		}
		var free signals.Bytes
		free, err = meminfoLine(text, []byte(line))
		held -= free
	}
	return max(held, 0), err
}

// heldOf returns the memory of a usage that reclaim does not free, unknown after an error.
func heldOf(u cgroup.MemoryUsage, err error) signals.Measured[signals.Bytes] {
	if err != nil || u.Usage > absurd {
		return signals.Measured[signals.Bytes]{}
	}
	return signals.Of(signals.Bytes(u.Held()))
}
