package stats

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// maxConsumers is the maximum number of consumers returned, largest first.
const maxConsumers = 10

// kernelLines lists the lines of /proc/meminfo for memory of the kernel and files in memory.
var kernelLines = []struct{ line, name string }{
	{"SUnreclaim:", "slab, unreclaimable"},
	{"Hugetlb:", "huge pages"},
	{"Shmem:", "tmpfs and shared memory"},
	{"PageTables:", "page tables"},
	{"KernelStack:", "kernel stacks"},
}

// kernelStatKeys lists the keys of memory.stat for a cgroup that is configured as the node, for
// both versions.
var kernelStatKeys = map[string]string{
	"slab_unreclaimable": "slab, unreclaimable",
	"shmem":              "tmpfs and shared memory",
	"total_shmem":        "tmpfs and shared memory",
	"pagetables":         "page tables",
	"kernel_stack":       "kernel stacks",
}

// Consumers returns the consumers of the node's memory, largest first: the cgroups below the
// node, all pods as one, and the kernel. Memory shared with a cgroup counts for both.
// Unreadable consumers are omitted. It reads two files per cgroup below the node, so call it
// for explanations only.
func (n *Node) Consumers() []signals.Consumer {
	found := append(n.groups(), n.kernel()...)
	slices.SortStableFunc(found, func(a, b signals.Consumer) int { return cmp.Compare(b.Bytes, a.Bytes) })
	found = slices.DeleteFunc(found, func(h signals.Consumer) bool { return h.Bytes == 0 })
	return found[:min(len(found), maxConsumers)]
}

// groups returns the cgroups below the node, and the memory outside of them.
func (n *Node) groups() (found []signals.Consumer) {
	entries, err := os.ReadDir(n.options.Hierarchy.Dir("memory", n.options.NodeCgroup))
	if err != nil {
		return nil
	}
	pods, _ := n.options.Places.Open() // without a root there are none
	var below signals.Bytes
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		at := path.Join(n.options.NodeCgroup, e.Name())
		bytes, ok := n.workingSetOf(at)
		if !ok {
			continue
		}
		below += bytes
		name := "cgroup " + e.Name()
		switch root := pods.Root(); {
		case at == root:
			name = "pods (" + e.Name() + ")"
		case strings.HasPrefix(root, at+"/"): // below a cgroupRoot, as on kind
			if inPods, ok := n.workingSetOf(root); ok {
				found = append(found, signals.Consumer{Name: "pods (" + path.Base(root) + ")", Bytes: inPods})
				name, bytes = name+" without pods", bytes-min(bytes, inPods)
			}
		}
		found = append(found, signals.Consumer{Name: name, Bytes: bytes})
	}
	if n.IsMachine() { // meminfo covers the machine's own memory
		return found
	}
	if all, ok := n.workingSetOf(n.options.NodeCgroup); ok && all > below {
		found = append(found, signals.Consumer{Name: "cgroup " + n.options.NodeCgroup + " itself", Bytes: all - below})
	}
	return found
}

// workingSetOf returns the working set of a cgroup; false if it is unreadable.
func (n *Node) workingSetOf(at string) (signals.Bytes, bool) {
	m, err := cgroup.OpenMemoryWith(n.options.Hierarchy, at, n.buf)
	if err != nil {
		return 0, false
	}
	defer m.Close()
	u, err := m.Read()
	if err != nil || u.Usage > absurd {
		return 0, false
	}
	return signals.Bytes(u.WorkingSet()), true
}

// kernel returns the memory of the kernel and of files in memory.
func (n *Node) kernel() (found []signals.Consumer) {
	if n.IsMachine() {
		text, err := n.meminfo.Read(n.buf)
		if err != nil {
			return nil
		}
		for _, k := range kernelLines {
			if bytes, err := meminfoLine(text, []byte(k.line)); err == nil {
				found = append(found, signals.Consumer{Name: k.name, Bytes: bytes})
			}
		}
		return found
	}
	text, err := os.ReadFile(path.Join(n.options.Hierarchy.Dir("memory", n.options.NodeCgroup), "memory.stat"))
	if err != nil {
		return nil
	}
	own := n.options.Hierarchy.Version == cgroup.V1
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, known := kernelStatKeys[key]
		if !known || own && key == "shmem" { // version 1 includes children in total_ only
			continue
		}
		if bytes, err := strconv.ParseUint(value, 10, 62); err == nil {
			found = append(found, signals.Consumer{Name: name, Bytes: signals.Bytes(bytes)})
		}
	}
	return found
}
