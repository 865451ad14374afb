package stats

import (
	"errors"
	"path/filepath"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

var errNotCounted = errors.New("count OOM kills: cgroup v1 has no counter for a node that is not the machine")

// OOMKills returns the number of processes that the kernel's OOM killer has ended: in pods on cgroup v2,
// and on the whole machine on v1. It reads one file. Returns an error if that is not counted.
func (r *HeldReader) OOMKills(isMachine bool) (uint64, error) {
	if r.h.Version == cgroup.V1 {
		if !isMachine {
			return 0, errNotCounted
		}
		text, err := r.text(filepath.Join(r.procRoot, "vmstat"))
		if err != nil {
			return 0, err
		}
		return cgroup.ParseOOMKills(text)
	}
	root := r.places.Root()
	if root == "" {
		tree, err := r.places.Open()
		if err != nil {
			return 0, err
		}
		root = tree.Root()
	}
	text, err := r.text(filepath.Join(r.h.Dir("memory", root), "memory.events"))
	if err != nil {
		return 0, err
	}
	events, err := cgroup.ParseMemoryEvents(text)
	return events.OOMKill, err
}

// text reads a file. The result is valid until the next call.
func (r *HeldReader) text(name string) ([]byte, error) {
	f, err := cgroup.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Read(r.buf)
}
