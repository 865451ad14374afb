package cgroupnotify

import (
	"path"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Options say what is to be watched.
type Options struct {
	ProcRoot   string // "/proc" if empty; /host/proc in a container
	Hierarchy  cgroup.Hierarchy
	NodeCgroup string // relative to each controller's mount; "/" if empty
	// Places, if set, are where the pods' cgroup is searched; else it is below
	// NodeCgroup.
	Places *cgroup.PodPlaces
	// Report, if set, is told of every change of a source after Open. It is
	// called on the loop's goroutine and must not wait.
	Report func(Source)
}

// A Notifier waits for the time, for a wake by this program, and for what the
// kernel has to say of memory. Wait, Follow and Close are for one goroutine;
// Wake and Sources for any.
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

// Open finds out what this kernel has that notifies. What it has not, or refuses,
// is among the Sources with its cause; only without descriptors to wait with is
// there an error.
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

// plan makes the list of what is watched, open or not.
func (n *Notifier) plan() {
	n.machine = n.newMachinePressure()
	isRoot := n.options.NodeCgroup == "/"
	n.watch(&watched{where: Node, signal: signals.MemoryAvailable, find: n.findNode}, isRoot)
	n.watch(&watched{where: Kubepods, signal: signals.AllocatableMemoryAvailable, find: n.findKubepods(), root: n.options.Places.Root}, false)
}

// watch plans what the kernel can tell of a cgroup.
func (n *Notifier) watch(c *watched, isRoot bool) {
	c.n = n
	v1 := n.options.Hierarchy.Version == cgroup.V1
	if v1 {
		t := newThresholds(c)
		n.lines = append(n.lines, t)
		c.channels = append(c.channels, t)
	}
	switch {
	case isRoot: // nobody's limit: no OOM killer is its own, and version 2 has no files there
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

// findKubepods returns how kubepods is found, whose absence is nothing unusual
// before the first pod: it then costs no garbage.
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

// Close closes everything, after the last Wait. It waits for what is being armed
// beside the loop, which takes the kernel up to 0.1 s.
func (n *Notifier) Close() error {
	n.machine.close()
	for _, c := range n.cgroups {
		c.close()
	}
	n.set.close()
	n.arming.Wait()
	return nil
}

// Wake ends the present wait, or else the next one; many calls count as one.
func (n *Notifier) Wake() { n.set.ring() }

// Wait waits until the time given or until there is a reason to look, and
// returns what that was; zero is the time. What has already happened is told
// even if the time is past.
func (n *Notifier) Wait(until time.Time) signals.Wakes { return n.set.wait(until) }

// Follow keeps the lines where less than their amount is available, by the look
// that was just taken; those of a signal that is unknown stay as they are. Once
// a second it tries again what was missing.
func (n *Notifier) Follow(node *signals.Observations, lines []signals.Line) {
	if now := time.Now(); !now.Before(n.retryAt) {
		n.retryAt = now.Add(retryPace)
		n.retry()
	}
	for _, t := range n.lines {
		t.follow(&node[t.c.signal], lines)
	}
}

// retryPace is how often what is missing is tried again at most.
const retryPace = time.Second

func (n *Notifier) retry() {
	n.machine.retry()
	for _, c := range n.cgroups {
		c.retry()
	}
}
