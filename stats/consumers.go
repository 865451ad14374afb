package stats

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Consumers finds the consumers of the node's memory and PIDs outside of pods. It opens files when it
// is called and keeps none open, so it is safe for concurrent use. It reads up to three files of each
// cgroup outside of pods: call it for explanations only, and beside the agent's loop.
type Consumers struct{ options Options }

// NewConsumers returns the Consumers of a node. The options are those of [Options.Resolve].
func NewConsumers(o Options) *Consumers { return &Consumers{o} }

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

// Memory returns the consumers of the node's memory: the cgroups of services, all pods together, and
// the kernel. Memory shared with a cgroup counts for both. Unreadable consumers are omitted.
func (c *Consumers) Memory() signals.Consumption {
	buf := cgroup.NewBuffer()
	s := c.search("memory", func(at string) (signals.Amount, bool) { return workingSetOf(c.options.Hierarchy, at, buf) })
	below := s.visit(c.options.NodeCgroup, 0)
	if c.options.NodeCgroup != "/" { // meminfo covers the machine's own memory
		s.addRest(c.options.NodeCgroup, below)
	}
	s.found = append(s.found, c.kernel()...)
	return s.consumption()
}

// PIDs returns the consumers of the node's PIDs, in tasks: the cgroups of services, all pods together,
// and the tasks outside of cgroups, such as threads of the kernel.
func (c *Consumers) PIDs() signals.Consumption {
	buf := cgroup.NewBuffer()
	s := c.search("pids", func(at string) (signals.Amount, bool) { return tasksOf(c.options.Hierarchy, at, buf) })
	below := s.visit(c.options.NodeCgroup, 0)
	if below == 0 {
		s.unmeasured = append(s.unmeasured, "no cgroup counts tasks: enable the pids controller")
	}
	if c.options.NodeCgroup != "/" {
		s.addRest(c.options.NodeCgroup, below)
		return s.consumption()
	}
	text, err := os.ReadFile(filepath.Join(c.options.ProcRoot, "loadavg"))
	if err == nil {
		var tasks signals.PIDs
		if tasks, err = ParseTasks(text); err == nil && signals.Amount(tasks) > below {
			s.add(signals.ConsumerProcesses, "kernel threads, and processes in no other cgroup", signals.Amount(tasks)-below)
		}
	}
	if err != nil {
		s.unmeasured = append(s.unmeasured, fmt.Sprintf("count the tasks of the machine: %v", err))
	}
	return s.consumption()
}

// Bounds of a search. Slices belong to systemd; a service may create any number of cgroups in its own,
// which is not searched.
const (
	maxGroups     = 512
	maxGroupDepth = 4
	slice         = ".slice"
)

// groupSearch collects the cgroups outside of pods.
type groupSearch struct {
	options    *Options
	controller string
	read       func(at string) (signals.Amount, bool)
	pods       string // path of the pods' cgroup, empty for none
	left       int    // number of cgroups that may still be visited
	found      []signals.Consumer
	unmeasured []string
}

func (c *Consumers) search(controller string, read func(at string) (signals.Amount, bool)) *groupSearch {
	pods, _ := c.options.Places.Open() // without a root there are none
	return &groupSearch{options: &c.options, controller: controller, read: read, pods: pods.Root(), left: maxGroups}
}

// visit adds the cgroups below another one, and returns what they hold together.
func (s *groupSearch) visit(at string, depth int) (sum signals.Amount) {
	dir, err := os.Open(s.options.Hierarchy.Dir(s.controller, at))
	if err != nil {
		if depth == 0 {
			s.unmeasured = append(s.unmeasured, fmt.Sprintf("list the cgroups of the node: %v", err))
		}
		return 0
	}
	defer dir.Close()                        //nolint:errcheck // nothing was written
	entries, _ := dir.ReadDir(maxGroups * 8) // files are entries too
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if s.left--; s.left < 0 {
			if s.left == -1 {
				s.unmeasured = append(s.unmeasured, fmt.Sprintf("cgroups beyond the first %d", maxGroups))
			}
			break
		}
		below := path.Join(at, e.Name())
		if amount, ok := s.read(below); ok {
			sum = sum.Plus(amount)
			s.addGroup(below, amount, depth)
		}
	}
	return sum
}

// addGroup adds a cgroup, or those in it for a slice and for one that contains the pods' cgroup.
func (s *groupSearch) addGroup(at string, amount signals.Amount, depth int) {
	if at == s.pods {
		s.add(signals.ConsumerPods, "pods ("+path.Base(at)+")", amount)
		return
	}
	name := "cgroup " + s.name(at)
	if divided := strings.HasSuffix(at, slice) || strings.HasPrefix(s.pods, at+"/"); divided && depth < maxGroupDepth {
		if inside := s.visit(at, depth+1); inside > 0 {
			name, amount = name+" itself", amount-min(amount, inside)
		}
	}
	s.add(signals.ConsumerCgroup, name, amount)
}

// addRest adds what a cgroup holds beyond those in it.
func (s *groupSearch) addRest(at string, below signals.Amount) {
	if all, ok := s.read(at); ok && all > below {
		s.add(signals.ConsumerCgroup, "cgroup "+at+" itself", all-below)
	}
}

// name returns the path of a cgroup below the node's.
func (s *groupSearch) name(at string) string {
	return strings.TrimPrefix(strings.TrimPrefix(at, s.options.NodeCgroup), "/")
}

func (s *groupSearch) add(kind signals.ConsumerKind, name string, amount signals.Amount) {
	s.found = append(s.found, signals.Consumer{Name: signals.PrintableName(name), Kind: kind, Amount: amount})
}

func (s *groupSearch) consumption() signals.Consumption {
	return signals.Consumption{Largest: largest(s.found), Unmeasured: s.unmeasured}
}

// largest returns the largest consumers in order. Those without an amount are left out.
func largest(found []signals.Consumer) []signals.Consumer {
	found = slices.DeleteFunc(found, func(c signals.Consumer) bool { return c.Amount <= 0 })
	slices.SortStableFunc(found, func(a, b signals.Consumer) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Name, b.Name))
	})
	return found[:min(len(found), signals.MaxConsumers)]
}

// workingSetOf returns the working set of a cgroup; false if it is unreadable.
func workingSetOf(h cgroup.Hierarchy, at string, buf *cgroup.Buffer) (signals.Amount, bool) {
	set, err := workingSet(memoryUsage(h, at, buf))
	return signals.Amount(set.Value), err == nil
}

// tasksOf returns the number of tasks in a cgroup and below it; false if they are not counted.
func tasksOf(h cgroup.Hierarchy, at string, buf *cgroup.Buffer) (signals.Amount, bool) {
	p, err := cgroup.OpenPIDs(h, at, buf)
	if err != nil {
		return 0, false
	}
	defer p.Close()
	u, err := p.Read()
	if err != nil || u.Current > absurd {
		return 0, false
	}
	return signals.Amount(u.Current), true
}

// kernel returns the memory of the kernel and of files in memory.
func (c *Consumers) kernel() (found []signals.Consumer) {
	add := func(name string, bytes signals.Amount) {
		found = append(found, signals.Consumer{Name: name, Kind: signals.ConsumerKernel, Amount: bytes})
	}
	if c.options.NodeCgroup == "/" {
		text, err := os.ReadFile(filepath.Join(c.options.ProcRoot, "meminfo"))
		if err != nil {
			return nil
		}
		for _, k := range kernelLines {
			if bytes, err := meminfoLine(text, []byte(k.line)); err == nil {
				add(k.name, signals.Amount(bytes))
			}
		}
		return found
	}
	text, err := os.ReadFile(path.Join(c.options.Hierarchy.Dir("memory", c.options.NodeCgroup), "memory.stat"))
	if err != nil {
		return nil
	}
	own := c.options.Hierarchy.Version == cgroup.V1
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, known := kernelStatKeys[key]
		if !known || own && key == "shmem" { // version 1 includes children in total_ only
			continue
		}
		if bytes, err := strconv.ParseUint(value, 10, 62); err == nil {
			add(name, signals.Amount(bytes))
		}
	}
	return found
}
