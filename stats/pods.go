package stats

import (
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Pods measures pods by their cgroups. The files of a pod stay open between measurements: three
// descriptors for the pod and each container, up to half of RLIMIT_NOFILE in all. Further pods
// are opened and closed each time, which takes five times as long. It is not safe for
// concurrent use.
type Pods struct {
	h       cgroup.Hierarchy
	places  *cgroup.PodPlaces
	tree    cgroup.PodTree
	treeErr error
	missed  bool // a pod had no cgroup in the last round

	known  map[string]*pod
	buf    *cgroup.Buffer
	free   int // descriptors left for files that stay open
	round  uint64
	full   uint64 // the last round in which no more files could be closed
	failed error

	counted   cgroup.MemoryUsage // usage of all pods at the last reading
	countedAt time.Time
	counting  time.Duration // duration of that reading
}

// OpenPods prepares to measure the pods below the node's cgroup. Pods and the kubepods
// directory may not exist yet. RLIMIT_NOFILE is read now.
func OpenPods(h cgroup.Hierarchy, nodeCgroup string) *Pods {
	return OpenPodsAt(h, cgroup.NewPodPlaces(h, nodeCgroup))
}

// OpenPodsAt is [OpenPods] with search paths for the pods' cgroup.
func OpenPodsAt(h cgroup.Hierarchy, places *cgroup.PodPlaces) *Pods {
	p := &Pods{h: h, places: places, known: map[string]*pod{}, buf: cgroup.NewBuffer(), free: descriptors()}
	p.findTree()
	return p
}

// descriptors returns half of this process's limit of open files; 512 if it is unknown.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 512
	}
	return int(min(limit.Cur/2, 1<<20))
}

func (p *Pods) findTree() { p.tree, p.treeErr = p.places.Open() }

// Measure appends a candidate for each pod, in their order: the working sets of the pod and
// each container (named as its cgroup), and the numbers of processes and tasks. Usage is nil for a
// pod without a cgroup. An unreadable value is unknown in the usage, see [Pods.Err]. The candidates
// point into pods, and their usages are valid until the next measurement.
func (p *Pods) Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return p.measure(pods, into, true)
}

// MeasureMemory is [Pods.Measure] without the processes, which take nearly half of its time. A
// ranking by memory needs no more.
func (p *Pods) MeasureMemory(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return p.measure(pods, into, false)
}

// Prepare opens the files of pods that are not open yet. A later measurement under pressure
// then takes a fifth of the time and allocates nothing. Repeated calls are cheap: 0.5 µs for an
// unchanged pod. A call counts as a measurement for the removal of unused pods.
func (p *Pods) Prepare(pods []signals.Pod) {
	p.begin()
	for i := range pods {
		p.lookup(pods[i].UID)
	}
	p.forget()
}

// root returns the pods' cgroup that was found last; empty if none was.
func (p *Pods) root() string { return p.tree.Root() }

// begin starts a round.
func (p *Pods) begin() {
	p.round++
	p.failed = nil
	if p.treeErr != nil || p.missed { // the tree may be new, or may have changed its naming
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

// measureOne measures the pod, twice if its cgroup has been replaced; nil if it has none.
func (p *Pods) measureOne(uid string, processes bool) *pod {
	for range 2 {
		m := p.lookup(uid)
		if m == nil || m.own.dir == nil {
			return m
		}
		own, err := m.measure(p.buf, processes)
		if !m.staysOpen {
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

// lookup returns the pod with open files, or nil if it has no cgroup.
func (p *Pods) lookup(uid string) *pod {
	m := p.known[uid]
	if m != nil && m.staysOpen && !m.changed() {
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
		return &pod{} // it has an unreadable cgroup: unknown, not absent
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
		m.staysOpen = true
		p.free -= need
	}
	return m, nil
}

// reserve frees descriptors by closing pods that were not requested lately. Pods of the last
// round stay open: closing pods that are due later in a round would close everything in every
// round.
func (p *Pods) reserve(need int) bool {
	if p.full == p.round {
		return p.free >= need
	}
	for uid, m := range p.known {
		if p.free >= need {
			break
		}
		if m.staysOpen && m.round+1 < p.round {
			p.drop(uid, m)
		}
	}
	if p.free < need {
		p.full = p.round
	}
	return p.free >= need
}

// idleRounds is the number of measurements after which an unrequested pod is closed.
const idleRounds = 16

// forget closes pods that were not requested for idleRounds: they have ended.
func (p *Pods) forget() {
	for uid, m := range p.known {
		if m.round+idleRounds < p.round {
			p.drop(uid, m)
		}
	}
}

func (p *Pods) drop(uid string, m *pod) {
	m.close()
	if m.staysOpen {
		p.free += m.descriptors()
	}
	delete(p.known, uid)
}

// Cgroup returns the pod's cgroup as of the last measurement. Callers must check that the
// directory still has this inode. ok is false for a pod without a cgroup.
func (p *Pods) Cgroup(uid string) (c cgroup.Pod, ok bool) {
	m := p.known[uid]
	if m == nil {
		return cgroup.Pod{}, false
	}
	return m.cgroup, true
}

// Unreclaimable returns the memory charged to the pod's cgroup at the last measurement, without page
// cache of disks and kernel memory. For a pod without processes this is the content of its
// memory volumes. It is 0 for a pod without a cgroup or a reading.
func (p *Pods) Unreclaimable(uid string) signals.Bytes {
	if m := p.known[uid]; m != nil {
		return m.unreclaimable
	}
	return 0
}

// Holdings returns the memory that the pods held at the last measurement, in place of the content of
// into, which it overwrites. Pods without a cgroup are omitted. It allocates only if into is too small.
func (p *Pods) Holdings(pods []signals.Pod, into []signals.PodHoldings) []signals.PodHoldings {
	into = into[:0]
	for i := range pods {
		m := p.known[pods[i].UID]
		if m == nil || m.round != p.round {
			continue
		}
		if len(into) == cap(into) {
			into = append(into, signals.PodHoldings{Containers: []signals.ContainerHoldings{}})
		} else {
			into = into[:len(into)+1]
		}
		held := &into[len(into)-1]
		*held = signals.PodHoldings{UID: m.held.UID, Path: m.held.Path, Held: m.held.Held, Containers: append(held.Containers[:0], m.held.Containers...)}
	}
	return into
}

// ContainerMemory returns the working set of the named child of the pod's cgroup, as of the
// last measurement.
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

// Err returns the first failure of the last measurement other than a missing cgroup, or nil.
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
