package oomkill

import (
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Level is the level of the limit that was met.
type Level uint8

// The levels.
const (
	UnknownLevel   Level = iota
	ContainerLevel       // the limit of a container
	PodLevel             // the limit of a pod
	QoSLevel             // the limit of all pods of a QoS class
	PodsLevel            // the limit of all pods
	NodeLevel            // the memory of the node
	levels
)

var levelNames = [levels]string{"unknown", "container", "pod", "qos", "pods", "node"}

func (l Level) String() string { return levelNames[l] }

// LevelNames returns the names of all levels.
func LevelNames() []string { return levelNames[:] }

// Node is what a node knows about its cgroups and pods. Paths are relative to the mount of the memory
// controller's tree.
type Node struct {
	Cgroup string // the cgroup that represents the node; / for the machine
	Root   string // of the pods' cgroups; empty if it is unknown
	Pods   []signals.Pod
}

// Place is the place of a kill within a node.
type Place struct {
	Level Level
	Limit string // the cgroup at its limit, as the node knows it; empty if unknown or of the machine

	Cgroup string // of the killed process; empty if unknown
	// Pod is the pod of the process. Without a known pod, UID is that of its cgroup, and empty for a
	// process outside of pods.
	Pod *signals.Pod
	UID string
	// Container is the container's name, and ID that of its cgroup; both are empty if unknown.
	Container, ID string
}

// Outside reports whether the killed process was in no pod.
func (p *Place) Outside() bool { return p.Cgroup != "" && p.UID == "" }

// Locate returns the place of a kill. ours is false if the kill concerns another node: several nodes
// may share one kernel and its log.
//
// The kernel writes paths from the root of the tree. A node in a container (kind) sees its own cgroup
// as the root. There, only a pod that the node knows shows how much of a path precedes that cgroup.
func (n *Node) Locate(k *Kill) (p Place, ours bool) {
	if k.TaskCgroup == "" {
		return Place{}, n.Cgroup == "/"
	}
	above, inPods := n.above(k.TaskCgroup)
	if !inPods {
		uid, _ := cgroup.PodAbove(k.TaskCgroup)
		p.Cgroup = k.TaskCgroup
		p.setLimit(n, k, "")
		return p, uid == "" && cgroup.Within(n.Cgroup, k.TaskCgroup)
	}
	p.Cgroup = k.TaskCgroup[len(above):]
	uid, dir := cgroup.PodAbove(p.Cgroup)
	if uid != "" && cgroup.Within(n.Root, dir) {
		p.setPod(n, uid, dir)
	}
	if above != "" && p.Pod == nil {
		return Place{}, false
	}
	p.setLimit(n, k, above)
	return p, true
}

// above returns the part of a path that precedes the node's own root of the tree, if the path leads
// below the pods' cgroup.
func (n *Node) above(path string) (prefix string, inPods bool) {
	if n.Root == "" {
		return "", false
	}
	if cgroup.Within(n.Root, path) {
		return "", true
	}
	i := strings.Index(path, n.Root+"/")
	return path[:max(i, 0)], i > 0
}

// setPod sets the pod and the container of a process.
func (p *Place) setPod(n *Node, uid, dir string) {
	p.UID = uid
	for i := range n.Pods {
		if n.Pods[i].UID == uid {
			p.Pod = &n.Pods[i]
		}
	}
	below := strings.TrimPrefix(p.Cgroup, dir)
	if below == "" {
		return
	}
	name, _, _ := strings.Cut(below[1:], "/")
	if (cgroup.Container{Path: "/" + name}).IsMonitor() {
		return
	}
	p.ID = cgroup.ContainerName(name)
	p.Container = containerName(p.Pod, p.ID)
}

// containerName returns the name of a pod's container by that of its cgroup, empty if it is unknown.
func containerName(pod *signals.Pod, id string) string {
	if pod == nil || id == "" {
		return ""
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.ID == id || c.ID == "" && c.Name == id {
			return c.Name
		}
	}
	return ""
}

// setLimit sets the limit that was met. A limit that does not contain the process is unknown: the
// process has been moved.
func (p *Place) setLimit(n *Node, k *Kill, above string) {
	switch {
	case k.LimitCgroup == "":
		if !k.Partial && n.Cgroup == "/" {
			p.Level = NodeLevel
		}
		return
	case !cgroup.Within(k.LimitCgroup, k.TaskCgroup):
		return
	}
	at, within := strings.CutPrefix(k.LimitCgroup, above)
	switch {
	case k.LimitCgroup == above:
		at = "/"
	case !within || !strings.HasPrefix(at, "/"):
		return // above the node
	}
	p.Limit = at
	_, dir := cgroup.PodAbove(at)
	switch {
	case at == n.Cgroup:
		p.Level = NodeLevel
	case n.Root == "" || !cgroup.Within(n.Root, at):
	case at == n.Root:
		p.Level = PodsLevel
	case dir == at:
		p.Level = PodLevel
	case dir != "" && parent(at) == dir:
		p.Level = ContainerLevel
	case dir == "" && parent(at) == n.Root && isClass(at):
		p.Level = QoSLevel
	}
}

// isClass reports whether a directory below the pods' cgroup is that of a QoS class.
func isClass(path string) bool {
	name := path[strings.LastIndex(path, "/")+1:]
	name, slice := strings.CutSuffix(name, ".slice")
	if slice {
		name = name[strings.LastIndex(name, "-")+1:]
	}
	return name == "burstable" || name == "besteffort"
}

// parent returns the path of the cgroup above.
func parent(path string) string {
	if i := strings.LastIndex(path, "/"); i > 0 {
		return path[:i]
	}
	return "/"
}
