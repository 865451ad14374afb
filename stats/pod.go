package stats

import (
	"errors"
	"os"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// pod is the cgroups of a pod with open files, and the last measurement.
type pod struct {
	cgroup        cgroup.Pod
	own           group
	containers    []containerGroup
	usage         signals.Usage
	unreclaimable signals.Bytes // the usage without page cache; 0 if unknown
	held          signals.PodHoldings

	staysOpen bool // its files stay open between measurements
	round     uint64
}

// group is one cgroup with open files.
type group struct {
	dir    *cgroup.Dir
	memory *cgroup.Memory
}

// containerGroup is a container's cgroup, and its children at the time of opening.
type containerGroup struct {
	group
	below int
	inner *cgroup.Memory // the only child, where crun puts the processes on version 2; else nil
}

// Numbers of open descriptors.
const (
	groupDescriptors = 3
	innerDescriptors = 2
)

func (g *group) close() {
	g.dir.Close()
	g.memory.Close()
}

func openGroup(h cgroup.Hierarchy, path string, buf *cgroup.Buffer) (group, error) {
	dir, err := cgroup.OpenDir(h, "memory", path)
	if err != nil {
		return group{}, err
	}
	memory, err := dir.OpenMemory(h.Version, buf)
	if err != nil {
		dir.Close()
		return group{}, err
	}
	return group{dir, memory}, nil
}

func openContainer(h cgroup.Hierarchy, path string, buf *cgroup.Buffer) (c containerGroup, err error) {
	if c.group, err = openGroup(h, path, buf); err != nil {
		return c, err
	}
	c.below, _ = c.dir.Children()
	if c.below == 1 {
		c.inner = openInner(h, path, buf)
	}
	return c, nil
}

// openInner opens the child cgroup that may contain a container's processes. It is nil if the
// child is gone or has no memory controller.
func openInner(h cgroup.Hierarchy, path string, buf *cgroup.Buffer) *cgroup.Memory {
	entries, _ := os.ReadDir(h.Dir("memory", path))
	for _, e := range entries {
		if e.IsDir() {
			inner, _ := cgroup.OpenMemoryWith(h, path+"/"+e.Name(), buf)
			return inner
		}
	}
	return nil
}

func (c *containerGroup) close() {
	c.group.close()
	if c.inner != nil {
		c.inner.Close()
	}
}

// read reads the container's memory with current counters. If all of it is in a child cgroup,
// that child is read first.
func (c *containerGroup) read() (cgroup.MemoryUsage, error) {
	if c.inner != nil {
		_, _ = c.inner.Read() // propagates its counters
	}
	return c.memory.Read()
}

// openPod opens the files of a pod. Containers that vanish meanwhile are omitted. The inode is
// that of the opened directory.
func openPod(h cgroup.Hierarchy, found cgroup.Pod, buf *cgroup.Buffer) (*pod, error) {
	own, err := openGroup(h, found.Path, buf)
	if err != nil {
		return nil, err
	}
	found.Inode = own.dir.Inode()
	m := &pod{cgroup: found, own: own}
	m.cgroup.Containers = nil
	m.held.UID, m.held.Path = found.UID, found.Path
	for _, c := range found.Containers {
		opened, err := openContainer(h, c.Path, buf)
		if cgroup.IsGone(err) {
			continue
		}
		if err != nil {
			m.close()
			return nil, err
		}
		m.containers = append(m.containers, opened)
		m.cgroup.Containers = append(m.cgroup.Containers, c)
		m.usage.Containers = append(m.usage.Containers, signals.ContainerUsage{Name: c.Name})
		m.held.Containers = append(m.held.Containers, signals.ContainerHoldings{Name: c.Name})
	}
	return m, nil
}

func (m *pod) close() {
	m.own.close()
	for i := range m.containers {
		m.containers[i].close()
	}
}

func (m *pod) descriptors() int {
	n := groupDescriptors * (1 + len(m.containers))
	for i := range m.containers {
		if m.containers[i].inner != nil {
			n += innerDescriptors
		}
	}
	return n
}

// changed reports whether the pod's containers or their children changed, or can not be
// counted. It takes 0.5 µs per directory.
func (m *pod) changed() bool {
	n, ok := m.own.dir.Children()
	if !ok || n != len(m.containers) {
		return true
	}
	for i := range m.containers {
		if below, ok := m.containers[i].dir.Children(); !ok || below != m.containers[i].below {
			return true
		}
	}
	return false
}

// measure measures the pod and returns its total usage. A failed reading is unknown in the
// usage, and the error is the first failure. A removed cgroup of the pod is a failure: the pod
// must be opened again.
func (m *pod) measure(buf *cgroup.Buffer, processes bool) (own cgroup.MemoryUsage, err error) {
	var errs [3]error
	own, err = m.upToDate()
	m.usage.Memory, errs[0] = workingSet(own, err)
	m.unreclaimable, m.usage.MemoryRelief, m.usage.MemoryFiles = 0, signals.Measured[signals.Bytes]{}, signals.Measured[signals.Bytes]{}
	if m.held.Held = heldOf(own, err); m.usage.Memory.Known {
		m.unreclaimable = signals.Bytes(own.Unreclaimable())
		m.usage.MemoryRelief = signals.Of(signals.Bytes(own.WithoutCaches()))
		m.usage.MemoryFiles = signals.Of(signals.Bytes(own.FilesInMemory()))
	}
	for i := range m.containers { // upToDate has just read the children
		u, err := m.containers[i].memory.Read()
		m.held.Containers[i].Held = heldOf(u, err)
		if m.usage.Containers[i].Memory, err = workingSet(u, err); err != nil && errs[1] == nil {
			errs[1] = err
		}
	}
	m.usage.Processes, m.usage.Tasks = signals.Measured[signals.PIDs]{}, signals.Measured[signals.PIDs]{}
	if n, err := m.own.dir.Tasks(buf); err == nil { // a node may be without the pids controller
		m.usage.Tasks = signals.Of(signals.PIDs(n))
	}
	if processes {
		m.usage.Processes, errs[2] = m.countProcesses(buf)
	}
	for _, err := range errs {
		if err != nil {
			return own, err
		}
	}
	return own, nil
}

var errAbsurd = errors.New(absurdUsage)

func workingSet(u cgroup.MemoryUsage, err error) (signals.Measured[signals.Bytes], error) {
	if err == nil && u.Usage > absurd {
		err = errAbsurd
	}
	if err != nil {
		return signals.Measured[signals.Bytes]{}, err
	}
	return signals.Of(signals.Bytes(u.WorkingSet())), nil
}

// countProcesses counts the processes of the pod's cgroup, of its containers', and of all
// cgroups below these.
func (m *pod) countProcesses(buf *cgroup.Buffer) (signals.Measured[signals.PIDs], error) {
	var bound cgroup.Bound
	total, err := m.own.dir.CountProcs(buf)
	for i := range m.containers {
		if err != nil {
			break
		}
		var n int
		if n, err = m.containers[i].countProcesses(buf, &bound); err == nil {
			total += n
		}
	}
	if err != nil {
		return signals.Measured[signals.PIDs]{}, err
	}
	return signals.Of(signals.PIDs(total)), nil
}

// countProcesses counts the processes of a cgroup and all below it. If not all of these can be
// visited, it returns the number of tasks, which is at least as large. If tasks are not counted
// either, it assumes at least one, because a known 0 would remove the pod from rankings.
func (g *group) countProcesses(buf *cgroup.Buffer, bound *cgroup.Bound) (int, error) {
	n, err := g.dir.CountProcs(buf)
	if err != nil {
		return 0, err
	}
	if below, ok := g.dir.Children(); ok && below == 0 {
		return n, nil
	}
	nested, err := g.dir.CountProcsBelow(buf, bound)
	if err == nil || cgroup.IsGone(err) {
		return n + nested, err
	}
	tasks, err := g.dir.Tasks(buf)
	if err != nil {
		tasks = 1
	}
	return max(n+nested, tasks), nil
}
