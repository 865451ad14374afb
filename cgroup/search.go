package cgroup

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A PodSearch asks again and again whether a node has got a kubepods directory,
// as an agent does that is started before the first pod: two system calls,
// about 2 µs, and no garbage.
type PodSearch struct{ places [2][]byte } // paths ending in a zero byte

// NewPodSearch prepares the search below a node's cgroup.
func NewPodSearch(h Hierarchy, nodeCgroup string) *PodSearch {
	plain, slices := podTrees(h, nodeCgroup)
	s := &PodSearch{}
	for i, t := range []PodTree{plain, slices} {
		s.places[i] = append([]byte(h.Dir("memory", t.root)), 0)
	}
	return s
}

// Found reports whether there is a kubepods directory now; [OpenPodTree] says
// which.
func (s *PodSearch) Found() bool {
	for _, place := range s.places {
		_, _, errno := unix.Syscall(unix.SYS_FACCESSAT, atCwd, uintptr(unsafe.Pointer(unsafe.SliceData(place))), unix.F_OK)
		if errno == 0 {
			return true
		}
	}
	return false
}

const atCwd = ^uintptr(99) // AT_FDCWD, which is -100
