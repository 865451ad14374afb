package stats

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Options say what the node is and where the kernel is seen.
type Options struct {
	ProcRoot   string // "/proc" if empty; /host/proc in a container
	CgroupRoot string // "/sys/fs/cgroup" if empty
	// Hierarchy replaces CgroupRoot and the detection of the cgroup version.
	Hierarchy cgroup.Hierarchy
	// NodeCgroup is the cgroup that plays the node, relative to each
	// controller's mount; "/" if empty, which is the machine.
	NodeCgroup string
	// Places, if set, are where the pods' cgroup is searched; else it is below
	// NodeCgroup.
	Places *cgroup.PodPlaces
	// KubeReserved and SystemReserved make a limit for pods where kubepods has
	// none, at least 0.
	KubeReserved, SystemReserved signals.Bytes
	// WithoutAllocatable leaves allocatableMemory.available out, where no
	// threshold asks for it: a third of what a look at a cgroup costs.
	WithoutAllocatable bool
}

// Resolve fills in what was left empty and detects the cgroup version.
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

// A Node reads the node's signals. It is not safe for concurrent use.
type Node struct {
	options Options
	buf     *cgroup.Buffer

	meminfo  *cgroup.File
	total    signals.Amount // MemTotal, as of the last regular look
	totalErr error

	memory *cgroup.Memory
	above  []*cgroup.Memory // the ancestors, nearest first; empty for "/"

	kubepods    *cgroup.Memory // nil until there is one
	kubepodsAt  string
	kubepodsErr error

	tasks, pidMax, threadsMax *cgroup.File
	pids                      *cgroup.PIDs // nil for "/" and where the controller is missing
	pidsErr                   error

	own, podsOwn counted
	pods         *Pods // nil: counters are what the cgroup itself says

	causes [signals.Count]cause
}

// OpenNode opens the files that the node's signals are read from. Only what
// memory.available needs must be there; what else is missing makes its signal
// unknown with the reason, and is looked for again at each regular look.
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
	if n.IsMachine() { // meminfo says it all
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

// IsMachine reports whether the node is the whole machine.
func (n *Node) IsMachine() bool { return n.options.NodeCgroup == "/" }

// Hierarchy is where the node's cgroups are mounted.
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

// refresh reads what changes rarely and finds what was missing.
func (n *Node) refresh() {
	n.total, n.totalErr = n.readMeminfo(ParseMemTotal)
	n.findKubepods()
	if n.pids == nil && !n.IsMachine() {
		n.pids, n.pidsErr = cgroup.OpenPIDsWith(n.options.Hierarchy, n.options.NodeCgroup, n.buf)
	}
}

// findKubepods opens the pods' cgroup, again if the pods turn out to be in another
// one than was taken.
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

// readMeminfo reads one of meminfo's lines.
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

// malformed says what meminfo lacks.
func (n *Node) malformed(err error) error {
	return fmt.Errorf("parse %s: %w", n.meminfo.Path(), err)
}

// A cause keeps the text of the error a signal was unknown for: readers return
// the same error value for the same failure, so a signal that stays unknown
// makes no new text.
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
