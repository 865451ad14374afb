package stats

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Options configure the node and the paths of the kernel's files.
type Options struct {
	ProcRoot   string // "/proc" if empty; /host/proc in a container
	CgroupRoot string // "/sys/fs/cgroup" if empty
	// Hierarchy replaces CgroupRoot and the detection of the cgroup version.
	Hierarchy cgroup.Hierarchy
	// NodeCgroup is the cgroup observed as the node, relative to each controller's mount. If it
	// is empty, it is "/": the machine.
	NodeCgroup string
	// Places are the search paths for the pods' cgroup. If it is nil, the pods' cgroup is below
	// NodeCgroup.
	Places *cgroup.PodPlaces
	// KubeReserved and SystemReserved define a limit for pods where kubepods has none, at least
	// 0.
	KubeReserved, SystemReserved signals.Bytes
	// WithoutAllocatable omits allocatableMemory.available if no threshold uses it. This saves
	// a third of the cost of checking a cgroup.
	WithoutAllocatable bool
}

// Resolve fills in defaults and detects the cgroup version. Returns an error if the detection
// fails.
func (o Options) Resolve() (Options, error) {
	if o.ProcRoot == "" {
		o.ProcRoot = "/proc"
	}
	if o.CgroupRoot == "" {
		o.CgroupRoot = "/sys/fs/cgroup"
	}
	o.NodeCgroup = path.Join("/", o.NodeCgroup)
	var err error
	if o.Hierarchy == (cgroup.Hierarchy{}) {
		o.Hierarchy, err = cgroup.Detect(o.CgroupRoot)
	}
	if o.Places == nil {
		o.Places = cgroup.NewPodPlaces(o.Hierarchy, o.NodeCgroup)
	}
	return o, err
}

// Node reads the node's signals. It is not safe for concurrent use.
type Node struct {
	options Options
	buf     *cgroup.Buffer

	meminfo  *cgroup.File
	total    signals.Amount // MemTotal at the last periodic check
	totalErr error

	memory *cgroup.Memory
	above  []*cgroup.Memory // the ancestors, nearest first; empty for "/"

	kubepods    *cgroup.Memory // nil until it exists
	kubepodsAt  string
	kubepodsErr error

	tasks, pidMax, threadsMax *cgroup.File
	pids                      *cgroup.PIDs // nil for "/" and without the controller
	pidsErr                   error

	own, podsOwn counted
	pods         *Pods // nil: the cgroup's own counters are used

	causes [signals.Count]cause
}

// OpenNode opens the files of the node's signals. Returns an error if a file for
// memory.available is missing. Any other missing file makes its signal unknown with the cause,
// and is retried at each periodic check.
func OpenNode(o Options) (*Node, error) {
	o, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	if o.KubeReserved < 0 || o.SystemReserved < 0 {
		return nil, fmt.Errorf("reserved memory of %d (kube) and %d (system) bytes: use at least 0", o.KubeReserved, o.SystemReserved)
	}
	n := &Node{options: o, buf: cgroup.NewBuffer()}
	if err := errors.Join(n.openMachine(), n.openMemory()); err != nil {
		n.Close()
		return nil, fmt.Errorf("observe the node's cgroup %s: %w", o.NodeCgroup, err)
	}
	n.refresh()
	if n.totalErr != nil {
		n.Close()
		return nil, fmt.Errorf("observe the machine's memory: %w", n.totalErr)
	}
	return n, nil
}

func (n *Node) openMachine() error {
	var errs []error
	for _, f := range []struct {
		file **cgroup.File
		name string
	}{
		{&n.meminfo, "meminfo"},
		{&n.tasks, "loadavg"},
		{&n.pidMax, "sys/kernel/pid_max"},
		{&n.threadsMax, "sys/kernel/threads-max"},
	} {
		var err error
		*f.file, err = cgroup.OpenFile(filepath.Join(n.options.ProcRoot, f.name))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (n *Node) openMemory() (err error) {
	at := n.options.NodeCgroup
	if n.IsMachine() { // meminfo suffices
		return nil
	}
	if n.memory, err = cgroup.OpenMemoryWith(n.options.Hierarchy, at, n.buf); err != nil {
		return err
	}
	for at != "/" {
		at = path.Dir(at)
		m, err := cgroup.OpenMemoryWith(n.options.Hierarchy, at, n.buf)
		if err != nil {
			return err
		}
		n.above = append(n.above, m)
	}
	return nil
}

// ObserveAllocatable has allocatableMemory.available observed, if Options.WithoutAllocatable omits it.
func (n *Node) ObserveAllocatable() { n.options.WithoutAllocatable = false }

// IsMachine reports whether the node is the whole machine.
func (n *Node) IsMachine() bool { return n.options.NodeCgroup == "/" }

// Hierarchy returns the mountpoints of the node's cgroups.
func (n *Node) Hierarchy() cgroup.Hierarchy { return n.options.Hierarchy }

// Close closes all files.
func (n *Node) Close() {
	for _, f := range []*cgroup.File{n.meminfo, n.tasks, n.pidMax, n.threadsMax} {
		if f != nil {
			f.Close()
		}
	}
	for _, m := range append(n.above, n.memory, n.kubepods) {
		if m != nil {
			m.Close()
		}
	}
	if n.pids != nil {
		n.pids.Close()
	}
}

// refresh rereads rarely changing values and opens missing files.
func (n *Node) refresh() {
	n.total, n.totalErr = n.readMeminfo(ParseMemTotal)
	n.findKubepods()
	if n.pids == nil && !n.IsMachine() {
		n.pids, n.pidsErr = cgroup.OpenPIDs(n.options.Hierarchy, n.options.NodeCgroup, n.buf)
	}
}

// findKubepods opens the pods' cgroup. It opens it again if the pods are found in another
// cgroup.
func (n *Node) findKubepods() {
	if n.kubepods != nil && n.pods != nil && n.pods.root() != "" && n.pods.root() != n.kubepodsAt {
		n.kubepods.Close()
		n.kubepods, n.kubepodsErr = nil, nil
	}
	if n.kubepods != nil || n.kubepodsErr != nil && !n.options.Places.Found() {
		return
	}
	var tree cgroup.PodTree
	if tree, n.kubepodsErr = n.options.Places.Open(); n.kubepodsErr == nil {
		n.kubepodsAt = tree.Root()
		n.kubepods, n.kubepodsErr = cgroup.OpenMemoryWith(n.options.Hierarchy, n.kubepodsAt, n.buf)
	}
}

// readMeminfo reads one line of meminfo.
func (n *Node) readMeminfo(line func([]byte) (signals.Bytes, error)) (signals.Amount, error) {
	text, err := n.meminfo.Read(n.buf)
	if err != nil {
		return 0, err
	}
	bytes, err := line(text)
	if err != nil {
		return 0, n.malformed(err)
	}
	return signals.Amount(bytes), nil
}

// malformed returns an error with the path of meminfo.
func (n *Node) malformed(err error) error {
	return fmt.Errorf("parse %s: %w", n.meminfo.Path(), err)
}

// cause caches the text of the error for which a signal is unknown. Readers return the same
// error value for the same failure, so a signal that stays unknown allocates no new text.
type cause struct {
	err  error
	text string
}

func (c *cause) of(err error) string {
	if c.err != err { //nolint:errorlint // identity is meant
		c.err, c.text = err, err.Error()
	}
	return c.text
}
