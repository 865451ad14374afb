package stats

import (
	"errors"
	"os"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// A pod is a pod's cgroups with their files open, and what was measured of it.
type pod struct {
	cgroup     cgroup.Pod
	own        group
	containers []containerGroup
	usage      signals.Usage
	held       signals.Bytes // of the usage, what is no page cache; 0 if it is not known

	kept  bool // its files stay open between measurements
	round uint64
}

// A group is one cgroup with its files open.
type group struct {
	dir    *cgroup.Dir
	memory *cgroup.Memory
}

// A containerGroup is a container's cgroup, and what is right below that when its files were opened.
type containerGroup struct {
	group
	below int
	inner *cgroup.Memory // of the only one below it, in which crun keeps the processes on version 2; else nil
}

// How many files are held open.
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

// openInner opens what a container's processes may be in; nil if that is gone, or
// nobody counts memory there.
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

// read reads the container's memory, with counters that are up to date where all of
// it lies one cgroup further down: those of whoever has it come first.
func (c *containerGroup) read() (cgroup.MemoryUsage, error) {
	if c.inner != nil {
		_, _ = c.inner.Read() // so that its counters are passed on
	}
	return c.memory.Read()
}

// openPod opens the files of a pod. Containers that vanish meanwhile are left
// out; the directory's identity is that of the one opened.
func openPod(h cgroup.Hierarchy, found cgroup.Pod, buf *cgroup.Buffer) (*pod, error) {
	own, err := openGroup(h, found.Path, buf)
	if err != nil {
		return nil, err
	}
	found.Inode = own.dir.Inode()
	m := &pod{cgroup: found, own: own}
	m.cgroup.Containers = nil
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

// changed reports whether the pod has gained or lost a container, or a container
// what is below it, or can not say: 0.5 µs each.
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

// measure measures the pod, and returns what all of it uses. What fails is not known in the usage; the error is
// the first failure. A cgroup of the pod that was removed is such a failure:
// the pod must be opened again.
func (m *pod) measure(buf *cgroup.Buffer, processes bool) (own cgroup.MemoryUsage, err error) {
	var errs [3]error
	own, err = m.upToDate()
	m.usage.Memory, errs[0] = workingSet(own, err)
	m.held = 0
	if m.usage.Memory.Known {
		m.held = signals.Bytes(own.Unreclaimable())
	}
	for i := range m.containers { // what is further down was read just now
		u, err := m.containers[i].memory.Read()
		if m.usage.Containers[i].Memory, err = workingSet(u, err); err != nil && errs[1] == nil {
			errs[1] = err
		}
	}
	m.usage.Processes = signals.Measured[signals.PIDs]{}
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

// countProcesses counts the processes of the pod's cgroup, of its containers',
// and of what containers made below theirs.
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

// countProcesses counts the processes of a cgroup and all below it. Where not all of
// these can be visited, the tasks count, which are as many or more; where those are not
// counted either, at least one is assumed: a known 0 would take the pod out of rankings.
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
