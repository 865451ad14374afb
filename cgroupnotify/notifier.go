package cgroupnotify

import (
	"path"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Options configure the watched files.
type Options struct {
	ProcRoot   string // "/proc" if empty; /host/proc in a container
	Hierarchy  cgroup.Hierarchy
	NodeCgroup string // relative to each controller's mount; "/" if empty
	// Places are the search paths for the pods' cgroup. If it is nil, the pods' cgroup is below
	// NodeCgroup.
	Places *cgroup.PodPlaces
	// Report, if set, receives every change of a source after Open. It is called on the loop's
	// goroutine and must not block.
	Report func(Source)
}

// Notifier waits for a deadline, a wake by this program, or a notification of the kernel about
// memory. Wait, Follow and Close must be called by one goroutine; Wake and Sources are safe on
// any.
type Notifier struct {
	options Options
	set     *set
	cgroups []*watched
	lines   []*thresholds
	buf     *cgroup.Buffer
	machine *pressure
	retryAt time.Time
	arming  sync.WaitGroup

	opened    bool
	sources   []*Source
	published atomic.Pointer[[]Source]
}

// Open opens the kernel's notifications. A missing or refused one is in Sources with its cause.
// Returns an error only if the descriptors for waiting can not be created.
func Open(o Options) (*Notifier, error) {
	if o.ProcRoot == "" {
		o.ProcRoot = "/proc"
	}
	o.NodeCgroup = path.Join("/", o.NodeCgroup)
	if o.Places == nil {
		o.Places = cgroup.NewPodPlaces(o.Hierarchy, o.NodeCgroup)
	}
	s, err := openSet()
	if err != nil {
		return nil, err
	}
	n := &Notifier{options: o, set: s, buf: cgroup.NewBuffer()}
	n.plan()
	n.retry()
	n.retryAt = time.Now().Add(retryPace)
	n.opened = true
	n.publish()
	return n, nil
}

// plan creates the list of watched sources, open or not.
func (n *Notifier) plan() {
	n.machine = n.newMachinePressure()
	isRoot := n.options.NodeCgroup == "/"
	n.watch(&watched{where: Node, signal: signals.MemoryAvailable, find: n.findNode}, isRoot)
	n.watch(&watched{where: Kubepods, signal: signals.AllocatableMemoryAvailable, find: n.findKubepods(), root: n.options.Places.Root}, false)
}

// watch adds the sources of a cgroup to the plan.
func (n *Notifier) watch(c *watched, isRoot bool) {
	c.n = n
	v1 := n.options.Hierarchy.Version == cgroup.V1
	if v1 {
		t := newThresholds(c)
		n.lines = append(n.lines, t)
		c.channels = append(c.channels, t)
	}
	switch {
	case isRoot: // the root has no limit, hence no OOM killer of its own, and no files on version 2
	case v1:
		c.channels = append(c.channels, newOOM(c))
	default:
		c.channels = append(c.channels, newEvents(c))
		if n.machine.possible() {
			c.channels = append(c.channels, newPressure(c))
		}
	}
	if len(c.channels) > 0 {
		n.cgroups = append(n.cgroups, c)
	}
}

func (n *Notifier) findNode() (string, error) { return n.options.NodeCgroup, nil }

// findKubepods returns a function that finds kubepods. Its absence is normal before the first
// pod and allocates nothing.
func (n *Notifier) findKubepods() func() (string, error) {
	var none error
	return func() (at string, err error) {
		if none == nil || n.options.Places.Found() {
			var tree cgroup.PodTree
			tree, none = n.options.Places.Open()
			at = tree.Root()
		}
		return at, none
	}
}

// Close closes all descriptors, after the last Wait. It waits for pending registrations, which
// take the kernel up to 0.1 s. The error is always nil.
func (n *Notifier) Close() error {
	n.machine.close()
	for _, c := range n.cgroups {
		c.close()
	}
	n.set.close()
	n.arming.Wait()
	return nil
}

// Wake ends the current wait, or else the next one. Repeated calls count as one.
func (n *Notifier) Wake() { n.set.wake() }

// Wait waits until the deadline or a reason for a check, and returns the reasons; zero means
// the deadline. Pending notifications are returned even if the deadline has passed. With park it
// waits in the poller of Go's runtime, which costs fewer wakeups, and any thread of the program may
// run the goroutine afterwards. Without park the calling thread waits in a system call.
func (n *Notifier) Wait(until time.Time, park bool) signals.Wakes { return n.set.wait(until, park) }

// Follow arms the lines of the given amounts by the last check. Lines of an unknown signal stay
// unchanged. Once a second it retries missing sources.
func (n *Notifier) Follow(node *signals.Observations, lines []signals.Line) {
	if now := time.Now(); !now.Before(n.retryAt) {
		n.retryAt = now.Add(retryPace)
		n.retry()
	}
	for _, t := range n.lines {
		t.follow(&node[t.c.signal], lines)
	}
}

// retryPace is the minimum time between two retries of missing sources.
const retryPace = time.Second

func (n *Notifier) retry() {
	n.machine.retry()
	for _, c := range n.cgroups {
		c.retry()
	}
}
