package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// QoS is a pod's quality of service class. It determines the parent of the pod's directory.
type QoS string

// The classes, by the name of their directory.
const (
	Guaranteed QoS = ""
	Burstable  QoS = "burstable"
	BestEffort QoS = "besteffort"
)

// Pod is a pod's directory in every hierarchy of a node.
type Pod struct {
	UID        string
	node       *Node
	below      string // relative to the node
	containers []string
}

// AddPod creates the directories of a pod and of its containers, with the names that the
// kubelet uses with the node's cgroup driver. Returns an error if the UID can not be the name
// of a directory.
func (n *Node) AddPod(uid string, qos QoS, containers ...string) (*Pod, error) {
	if uid == "" || strings.ContainsAny(uid, "/\x00") {
		return nil, fmt.Errorf("add a pod to %s: UID %q can not name a directory", n.name, uid)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("add pod %s to %s: the node is closed", uid, n.name)
	}
	p := &Pod{UID: uid, node: n, below: n.podDir(uid, qos), containers: containers}
	if err := n.create(p.below, 0, 0); err != nil {
		return nil, fmt.Errorf("make the cgroups of pod %s: %w", uid, err)
	}
	for _, c := range containers {
		if err := n.create(p.container(c), 0, 0); err != nil {
			return nil, fmt.Errorf("make the cgroups of container %s of pod %s: %w", c, uid, err)
		}
	}
	return p, nil
}

// AddService creates the directories of a process outside of all pods, beside kubepods, with
// one container, main. Returns an error if the name is invalid or begins with kubepods.
func (n *Node) AddService(name string) (*Pod, error) {
	if !prefix.MatchString(name) || strings.HasPrefix(name, "kubepods") {
		return nil, fmt.Errorf("add a service to %s: %q: use lower-case letters, digits and -, and leave kubepods to pods", n.name, name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("add the service %s to %s: the node is closed", name, n.name)
	}
	p := &Pod{UID: name, node: n, below: name, containers: []string{"main"}}
	for _, below := range []string{name, p.container("main")} {
		if err := n.create(below, 0, 0); err != nil {
			return nil, fmt.Errorf("make the cgroups of the service %s: %w", name, err)
		}
	}
	return p, nil
}

func (n *Node) podDir(uid string, qos QoS) string {
	if !n.systemd {
		return filepath.Join("kubepods", string(qos), "pod"+uid)
	}
	// The name of a slice contains its parents, separated by -: dashes of a UID become _.
	slice, name := "kubepods.slice", "kubepods"
	if qos != Guaranteed {
		name += "-" + string(qos)
		slice = filepath.Join(slice, name+".slice")
	}
	return filepath.Join(slice, name+"-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
}

func (p *Pod) container(name string) string {
	if p.node.systemd {
		name = "cri-containerd-" + name + ".scope"
	}
	return filepath.Join(p.below, name)
}

// Path returns the pod's directory relative to each controller's mount, with a leading slash.
func (p *Pod) Path() string { return filepath.Join("/", p.node.name, p.below) }

// Dir returns the pod's directory in a controller's hierarchy, see [Node.Dir].
func (p *Pod) Dir(controller string) string { return p.node.dir(controller, p.below) }

// ContainerDir returns a container's directory in a controller's hierarchy.
func (p *Pod) ContainerDir(controller, container string) string {
	return p.node.dir(controller, p.container(container))
}

// LimitMemory sets the pod's own memory limit in bytes. Returns the error of the kernel if it
// rejects the limit.
func (p *Pod) LimitMemory(bytes int64) error {
	return p.node.create(p.below, bytes, 0)
}

// LimitPids sets the pod's own task limit. Returns the error of the kernel if it rejects the
// limit.
func (p *Pod) LimitPids(tasks int64) error {
	return p.node.create(p.below, 0, tasks)
}

// Freeze stops every process of the pod, like a paused container, until Thaw or the end of the
// node. On v1 even SIGKILL has no effect before the thaw. Returns the error of the write.
func (p *Pod) Freeze() error {
	if p.node.layout.version == 2 {
		return p.node.write(Unified, p.below, "cgroup.freeze", "1")
	}
	return p.node.write("freezer", p.below, "freezer.state", "FROZEN")
}

// Thaw resumes the pod's processes. Returns the error of the write.
func (p *Pod) Thaw() error {
	if p.node.layout.version == 2 {
		return p.node.write(Unified, p.below, "cgroup.freeze", "0")
	}
	return p.node.write("freezer", p.below, "freezer.state", "THAWED")
}

func (p *Pod) has(container string) bool { return slices.Contains(p.containers, container) }
