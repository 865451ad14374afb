package stats

import (
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Breakdowns reads the memory of pods by kind, for a recording. It has files of its own, so that it
// may run beside the agent's loop, which reads others. It is not safe for concurrent use.
//
// Files of pods stay open, up to a quarter of RLIMIT_NOFILE in all. Files of further pods are opened
// and closed each time.
type Breakdowns struct {
	h       cgroup.Hierarchy
	places  *cgroup.PodPlaces
	tree    cgroup.PodTree
	treeErr error
	missed  bool // a pod had no cgroup in the last round

	known map[string]*openBreakdown
	buf   *cgroup.Buffer
	free  int // descriptors left for files that stay open
	round uint64
}

// openBreakdown is a pod with open files.
type openBreakdown struct {
	files *cgroup.BreakdownFiles
	round uint64 // of its last reading
	stays bool   // its files stay open
}

// OpenBreakdowns prepares to read the pods of the places. RLIMIT_NOFILE is read now.
func OpenBreakdowns(h cgroup.Hierarchy, places *cgroup.PodPlaces) *Breakdowns {
	b := &Breakdowns{h: h, places: places, known: map[string]*openBreakdown{}, buf: cgroup.NewBuffer(), free: descriptors() / 2}
	b.tree, b.treeErr = places.Open()
	return b
}

// Read calls each for every pod with a readable cgroup, in order.
func (b *Breakdowns) Read(pods []signals.Pod, each func(*signals.Pod, *cgroup.Breakdown)) {
	b.round++
	if b.treeErr != nil || b.missed { // the tree may be new, or may have changed its naming
		b.tree, b.treeErr = b.places.Open()
	}
	b.missed = false
	for i := range pods {
		if read, ok := b.read(pods[i].UID); ok {
			each(&pods[i], &read)
		}
	}
	for uid, o := range b.known {
		if o.round != b.round {
			b.drop(uid, o)
		}
	}
}

// read reads a pod, twice if its cgroup was replaced.
func (b *Breakdowns) read(uid string) (cgroup.Breakdown, bool) {
	for range 2 {
		o := b.lookup(uid)
		if o == nil {
			return cgroup.Breakdown{}, false
		}
		read, err := o.files.Read(b.buf)
		if err == nil {
			if !o.stays {
				b.drop(uid, o)
			}
			return read, true
		}
		b.drop(uid, o)
		if !cgroup.IsGone(err) {
			return cgroup.Breakdown{}, false
		}
	}
	return cgroup.Breakdown{}, false
}

// lookup returns the pod with open files, or nil if they can not be opened.
func (b *Breakdowns) lookup(uid string) *openBreakdown {
	if o := b.known[uid]; o != nil {
		if o.round = b.round; !o.files.Changed() {
			return o
		}
		b.drop(uid, o)
	}
	if b.treeErr != nil {
		return nil
	}
	found, err := b.tree.Find(uid)
	if err != nil {
		b.missed = true
		return nil
	}
	files, err := cgroup.OpenBreakdown(b.h, found)
	if err != nil {
		return nil
	}
	o := &openBreakdown{files: files, round: b.round}
	if need := files.Descriptors(); need <= b.free {
		o.stays = true
		b.free -= need
	}
	b.known[uid] = o
	return o
}

func (b *Breakdowns) drop(uid string, o *openBreakdown) {
	if o.stays {
		b.free += o.files.Descriptors()
	}
	o.files.Close()
	delete(b.known, uid)
}

// Close closes all files.
func (b *Breakdowns) Close() {
	for uid, o := range b.known {
		b.drop(uid, o)
	}
}

// MachineCounters reads counters of the whole machine: stalls, and kills by the OOM killer. It is
// not safe for concurrent use.
type MachineCounters struct {
	memory, io, vmstat string
	files              map[string]*cgroup.File
	buf                *cgroup.Buffer
}

// OpenMachineCounters prepares to read below a proc root, usually /proc.
func OpenMachineCounters(procRoot string) *MachineCounters {
	return &MachineCounters{memory: filepath.Join(procRoot, "pressure/memory"), io: filepath.Join(procRoot, "pressure/io"), vmstat: filepath.Join(procRoot, "vmstat"),
		files: map[string]*cgroup.File{}, buf: cgroup.NewBuffer()}
}

// MachineCount is the counters of a machine since its boot. Stalls are in microseconds.
type MachineCount struct {
	MemoryStallSome, MemoryStallFull, IOStallSome, IOStallFull, OOMKills cgroup.Counted
}

// Read reads the counters. One that can not be read is unknown: pressure stall information may be
// switched off.
func (m *MachineCounters) Read() (c MachineCount) {
	c.MemoryStallSome, c.MemoryStallFull = m.stalls(m.memory)
	c.IOStallSome, c.IOStallFull = m.stalls(m.io)
	if text := m.text(m.vmstat); text != nil {
		kills, err := cgroup.ParseVMStatOOMKills(text)
		c.OOMKills = cgroup.Counted{Value: kills, Known: err == nil}
	}
	return c
}

func (m *MachineCounters) stalls(path string) (some, full cgroup.Counted) {
	text := m.text(path)
	if text == nil {
		return some, full
	}
	waited, all, err := cgroup.ParseStalls(text)
	if err != nil {
		return some, full
	}
	return cgroup.Counted{Value: uint64(waited.Microseconds()), Known: true}, cgroup.Counted{Value: uint64(all.Microseconds()), Known: true}
}

// text returns the text of a file that stays open, and nil if it can not be read.
func (m *MachineCounters) text(path string) []byte {
	f := m.files[path]
	if f == nil {
		var err error
		if f, err = cgroup.OpenFile(path); err != nil {
			return nil
		}
		m.files[path] = f
	}
	text, err := f.Read(m.buf)
	if err != nil {
		return nil
	}
	return text
}

// Close closes all files.
func (m *MachineCounters) Close() {
	for _, f := range m.files {
		f.Close()
	}
}
