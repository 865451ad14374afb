package arena

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// MaxLimit is the maximum memory of a node that is a cgroup.
const MaxLimit = 2 << 30

// Options describe a node.
type Options struct {
	Machine bool  // the whole machine
	Limit   int64 // memory of a cgroup in bytes
	Systemd bool  // directories have the names of the systemd driver
}

// Node is a node, and a group of cgroups for the contestant outside of it. Its methods are safe for
// concurrent use.
type Node struct {
	Options
	Total int64 // memory in bytes

	layout Layout
	name   string
	group  string // directory of the contestant, relative to each mount
	reaper *reaper

	mu     sync.Mutex
	closed bool
	made   []string // directories, parents first
}

// bootDifference bounds what the memory of a machine differs by between two boots, in bytes, so that one seed gives the same numbers.
const bootDifference = 16 << 20

var counter atomic.Int64

// New makes a node. The caller closes it. Returns an error if a directory can not be made.
func New(o Options) (n *Node, err error) {
	l, err := Detect()
	if err != nil {
		return nil, err
	}
	owner, err := myself()
	if err != nil {
		return nil, err
	}
	n = &Node{Options: o, Total: o.Limit, layout: l, name: fmt.Sprintf("%s%s-%d", prefix, owner, counter.Add(1))}
	n.group = n.name + "-contestant"
	if o.Machine {
		n.name = ""
		if n.Total, err = gauge.Memory(); err != nil {
			return nil, err
		}
		n.Total &^= bootDifference - 1
	} else if o.Limit < 1<<20 || o.Limit > MaxLimit {
		return nil, fmt.Errorf("a node of %d bytes: want 1 MiB to %d bytes", o.Limit, int64(MaxLimit))
	}
	if n.reaper, err = startReaper(); err != nil {
		return nil, err
	}
	if err := n.prepare(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) prepare() error {
	if n.layout.Version == 2 {
		// A kubelet and systemd enable them there and do not disable them: the same for all runs, where they exist.
		for _, controller := range []string{"+cpu", "+io"} {
			_ = write(n.layout.dir("memory"), "cgroup.subtree_control", controller)
		}
	}
	for _, dir := range n.layout.dirs(groupControllers, n.group) {
		if err := n.make(dir); err != nil {
			return err
		}
	}
	if n.Machine {
		for _, dir := range n.layout.dirs(podControllers, n.kubepods()) {
			if _, err := os.Stat(dir); err == nil && !n.Systemd {
				return fmt.Errorf("%s exists: a kubelet uses this machine, or a run of the benchmark: remove it", dir)
			}
		}
		return n.makeAll(n.kubepods(), 0)
	}
	if err := n.makeAll("", n.Limit); err != nil {
		return err
	}
	return n.makeAll(n.kubepods(), 0)
}

// makeAll makes a directory below the node in every hierarchy, with a memory limit unless it is 0.
func (n *Node) makeAll(below string, limit int64) error {
	for _, dir := range n.layout.dirs(podControllers, filepath.Join(n.name, below)) {
		if err := n.make(dir); err != nil {
			return err
		}
	}
	if limit > 0 {
		return n.layout.limitMemory(n.memory(below), limit)
	}
	return nil
}

// make makes a directory with its parents and, on v2, enables the controllers in the parents. The reaper
// knows each directory before it exists.
func (n *Node) make(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := n.make(parent); err != nil {
		return err
	}
	if n.layout.Version == 2 {
		if err := write(parent, "cgroup.subtree_control", "+memory +pids"); err != nil {
			return err
		}
	}
	if err := n.reaper.note("cgroup", dir); err != nil {
		return err
	}
	n.made = append(n.made, dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return nil
}

func (n *Node) memory(below string) string {
	return filepath.Join(n.layout.dir("memory"), n.name, below)
}

func (n *Node) kubepods() string {
	if n.Systemd {
		return "kubepods.slice"
	}
	return "kubepods"
}

// Path returns the node's directory relative to the mount point of each hierarchy.
func (n *Node) Path() string { return "/" + n.name }

// Directory returns the node's directory with the files of the memory controller.
func (n *Node) Directory() string { return n.memory("") }

// Pods returns the directory above those of the pods, with the files of the memory controller.
func (n *Node) Pods() string { return n.memory(n.kubepods()) }

// PodsPath returns that directory relative to the mount point of each hierarchy, without a leading slash.
func (n *Node) PodsPath() string { return filepath.Join(n.name, n.kubepods()) }

// Gauge returns where the free memory of the node is read.
func (n *Node) Gauge() gauge.Gauge {
	g := gauge.Gauge{Total: n.Total}
	switch {
	case n.Machine:
	case n.layout.Version == 2:
		g.Usage = filepath.Join(n.memory(""), "memory.current")
	default:
		g.Usage = filepath.Join(n.memory(""), "memory.usage_in_bytes")
	}
	return g
}

// QoS is the class of a pod, which determines its parent directory.
type QoS string

// The classes.
const (
	Guaranteed QoS = "guaranteed"
	Burstable  QoS = "burstable"
	BestEffort QoS = "besteffort"
)

// Place is where the processes of a pod, a daemon or a contestant are.
type Place struct {
	Stat   string // memory.stat of its processes
	Events string // file with the number of processes that the kernel's OOM killer ended
	pod    string // directory with the limit
	dirs   []string
	layout Layout
	limit  int64
}

// AddPod makes the directories of a pod with one container, and a memory limit unless it is 0.
func (n *Node) AddPod(uid string, qos QoS, container string, limit int64) (*Place, error) {
	below, leaf := n.podDirectories(uid, qos, container)
	p, err := n.place(below, leaf, limit)
	if err == nil && n.layout.Version == 2 { // as a kubelet does since 1.28
		err = write(n.memory(leaf), "memory.oom.group", "1")
	}
	return p, err
}

func (n *Node) podDirectories(uid string, qos QoS, container string) (pod, leaf string) {
	if !n.Systemd {
		pod = filepath.Join("kubepods", string(qos), "pod"+uid)
		if qos == Guaranteed {
			pod = filepath.Join("kubepods", "pod"+uid)
		}
		return pod, filepath.Join(pod, container)
	}
	// The name of a slice contains those of its parents, separated by -. So dashes of a UID become _.
	pod, name := "kubepods.slice", "kubepods"
	if qos != Guaranteed {
		name += "-" + string(qos)
		pod = filepath.Join(pod, name+".slice")
	}
	pod = filepath.Join(pod, name+"-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
	return pod, filepath.Join(pod, "cri-containerd-"+container+".scope")
}

// AddService makes the directory of a daemon outside of all pods.
func (n *Node) AddService(name string) (*Place, error) {
	below := filepath.Join("system.slice", "npb-"+name+".service")
	return n.place(below, below, 0)
}

func (n *Node) place(below, leaf string, limit int64) (*Place, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("the node is closed")
	}
	if err := errors.Join(n.makeAll(below, limit), n.makeAll(leaf, 0)); err != nil {
		return nil, err
	}
	events := "memory.events"
	if n.layout.Version == 1 {
		events = "memory.oom_control"
	}
	return &Place{
		Stat: filepath.Join(n.memory(leaf), "memory.stat"), Events: filepath.Join(n.memory(leaf), events),
		pod: n.memory(below), dirs: n.layout.dirs(podControllers, filepath.Join(n.name, leaf)), layout: n.layout, limit: limit,
	}, nil
}

// ContestantPlace returns the group outside of the node.
func (n *Node) ContestantPlace() *Place {
	return &Place{dirs: n.layout.dirs(groupControllers, n.group), layout: n.layout}
}

// AtLimit reports whether the pod reached its own limit, so that a kill by the kernel may have been for
// that reason.
func (p *Place) AtLimit() bool {
	if p.limit == 0 {
		return false
	}
	if p.layout.Version == 2 {
		n, err := gauge.ValueOf(filepath.Join(p.pod, "memory.events.local"), "oom")
		return err == nil && n > 0
	}
	text, err := os.ReadFile(filepath.Join(p.pod, "memory.failcnt"))
	return err == nil && strings.TrimSpace(string(text)) != "0"
}
