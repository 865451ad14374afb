package stats

import (
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Pods measures pods by what their cgroups hold. The files of a pod stay open
// from one measurement to the next: three descriptors for the pod and each of
// its containers, half of RLIMIT_NOFILE in all; pods beyond that are opened and
// closed each time, which takes five times as long. It is not safe for
// concurrent use.
type Pods struct {
	h       cgroup.Hierarchy
	places  *cgroup.PodPlaces
	tree    cgroup.PodTree
	treeErr error
	missed  bool // a pod had no cgroup in the last round

	known  map[string]*pod
	buf    *cgroup.Buffer
	free   int // descriptors that may still be opened to be kept
	round  uint64
	full   uint64 // the last round in which nothing more could be closed
	failed error

	counted   cgroup.MemoryUsage // by all pods, when they were read last
	countedAt time.Time
	counting  time.Duration // how long that took
}

// OpenPods prepares to measure the pods below the node's cgroup. There may be
// none yet, nor a kubepods directory. RLIMIT_NOFILE is read now.
func OpenPods(h cgroup.Hierarchy, nodeCgroup string) *Pods {
	return OpenPodsAt(h, cgroup.NewPodPlaces(h, nodeCgroup))
}

// OpenPodsAt is [OpenPods] where the pods' cgroup is searched in these places.
func OpenPodsAt(h cgroup.Hierarchy, places *cgroup.PodPlaces) *Pods {
	p := &Pods{h: h, places: places, known: map[string]*pod{}, buf: cgroup.NewBuffer(), free: descriptors()}
	p.findTree()
	return p
}

// descriptors is half of how many files this process may open; 512 if it can
// not be told.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 512
	}
	return int(min(limit.Cur/2, 1<<20))
}

func (p *Pods) findTree() { p.tree, p.treeErr = p.places.Open() }

// Measure appends a candidate for each pod, in their order: working set of the
// pod and of each container (named as its cgroup is), and the number of its
// processes. Usage is nil for a pod without a cgroup; what could not be read of
// one that has a cgroup is not known in its usage, see [Pods.Err]. The
// candidates point into pods, and their usages are valid until the next
// measurement.
func (p *Pods) Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return p.measure(pods, into, true)
}

// MeasureMemory is [Pods.Measure] without the processes, which take half of its
// time: all that a ranking by memory asks for.
func (p *Pods) MeasureMemory(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return p.measure(pods, into, false)
}

// Prepare opens the files of pods that are not open yet, so that measuring them
// under pressure takes a fifth of the time and allocates nothing. To call it
// again is cheap: 0.5 µs for a pod that has not changed. It counts as a
// measurement for what is forgotten.
func (p *Pods) Prepare(pods []signals.Pod) {
	p.begin()
	for i := range pods {
		p.lookUp(pods[i].UID)
	}
	p.forget()
}

// root is the pods' cgroup that was found last; empty if none was.
func (p *Pods) root() string { return p.tree.Root() }

// begin starts a round.
func (p *Pods) begin() {
	p.round++
	p.failed = nil
	if p.treeErr != nil || p.missed { // the tree may have come, or have changed its naming
		p.findTree()
	}
	p.missed = false
}

func (p *Pods) measure(pods []signals.Pod, into []signals.Candidate, processes bool) []signals.Candidate {
	p.begin()
	p.counted = cgroup.MemoryUsage{}
	now := time.Now()
	for i := range pods {
		c := signals.Candidate{Pod: &pods[i]}
		if m := p.measureOne(pods[i].UID, processes); m != nil {
			m.usage.Time = now
			c.Usage = &m.usage
		}
		into = append(into, c)
	}
	p.forget()
	return into
}

// measureOne measures the pod, twice if its cgroup turns out to have been
// replaced; nil if it has none.
func (p *Pods) measureOne(uid string, processes bool) *pod {
	for range 2 {
		m := p.lookUp(uid)
		if m == nil || m.own.dir == nil {
			return m
		}
		own, err := m.measure(p.buf, processes)
		if !m.kept {
			m.close()
		}
		if err == nil {
			p.count(own)
			return m
		}
		if !cgroup.IsGone(err) {
			p.fail(err)
			return m
		}
		p.drop(uid, m)
	}
	return nil
}

// lookUp returns the pod with its files open, or nil if it has no cgroup.
func (p *Pods) lookUp(uid string) *pod {
	m := p.known[uid]
	if m != nil && m.kept && !m.changed() {
		m.round = p.round
		return m
	}
	if m != nil {
		p.drop(uid, m)
	}
	m, err := p.open(uid)
	if cgroup.IsGone(err) {
		p.missed = true
		return nil
	}
	if err != nil {
		p.fail(err)
		return &pod{} // it has a cgroup that can not be read: not known, which is not the same as none
	}
	p.known[uid] = m
	return m
}

func (p *Pods) open(uid string) (*pod, error) {
	if p.treeErr != nil {
		return nil, p.treeErr
	}
	found, err := p.tree.Find(uid)
	if err != nil {
		return nil, err
	}
	m, err := openPod(p.h, found, p.buf)
	if err != nil {
		return nil, err
	}
	m.round = p.round
	if need := m.descriptors(); p.reserve(need) {
		m.kept = true
		p.free -= need
	}
	return m, nil
}

// reserve makes room for descriptors, closing pods that nobody has asked for
// lately. Those of the last round are spared: to close what comes next in a
// round would close everything, every round.
func (p *Pods) reserve(need int) bool {
	if p.full == p.round {
		return p.free >= need
	}
	for uid, m := range p.known {
		if p.free >= need {
			break
		}
		if m.kept && m.round+1 < p.round {
			p.drop(uid, m)
		}
	}
	if p.free < need {
		p.full = p.round
	}
	return p.free >= need
}

// idleRounds is for how many measurements a pod that nobody asks for is kept.
const idleRounds = 16

// forget closes what nobody has asked for in a while: pods that ended.
func (p *Pods) forget() {
	for uid, m := range p.known {
		if m.round+idleRounds < p.round {
			p.drop(uid, m)
		}
	}
}

func (p *Pods) drop(uid string, m *pod) {
	m.close()
	if m.kept {
		p.free += m.descriptors()
	}
	delete(p.known, uid)
}

// Cgroup is the pod's cgroup as of the last measurement: whoever acts on it
// checks that the directory still has this inode. ok is false for a pod that
// had none.
func (p *Pods) Cgroup(uid string) (c cgroup.Pod, ok bool) {
	m := p.known[uid]
	if m == nil {
		return cgroup.Pod{}, false
	}
	return m.cgroup, true
}

// Held is the memory that the pod's cgroup was charged for at the last measurement,
// without page cache of disks and kernel memory: what a pod without processes keeps
// in volumes of memory. It is 0 for a pod that has no cgroup or was not read.
func (p *Pods) Held(uid string) signals.Bytes {
	if m := p.known[uid]; m != nil {
		return m.held
	}
	return 0
}

// ContainerMemory is the working set of the cgroup of that name right below the pod's,
// as of the last measurement.
func (p *Pods) ContainerMemory(uid, name string) signals.Measured[signals.Bytes] {
	if m := p.known[uid]; m != nil {
		for i := range m.usage.Containers {
			if m.usage.Containers[i].Name == name {
				return m.usage.Containers[i].Memory
			}
		}
	}
	return signals.Measured[signals.Bytes]{}
}

// Err is the first failure of the last measurement other than a cgroup that
// does not exist, or nil.
func (p *Pods) Err() error { return p.failed }

func (p *Pods) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
}

// Close closes all files.
func (p *Pods) Close() {
	for uid, m := range p.known {
		p.drop(uid, m)
	}
}
