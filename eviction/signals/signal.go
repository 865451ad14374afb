package signals

import (
	"fmt"
	"math/bits"
	"strings"
)

// Signal is a resource of a node that can run out. If several are met, they are acted for in the
// order of the constants.
type Signal uint8

// The eviction signals of Kubernetes, in acting order.
const (
	MemoryAvailable Signal = iota
	AllocatableMemoryAvailable
	NodefsAvailable
	NodefsInodesFree
	ImagefsAvailable
	ImagefsInodesFree
	ContainerfsAvailable
	ContainerfsInodesFree
	PIDAvailable

	// Count is the number of signals; arrays indexed by Signal have this size.
	Count = int(iota)
)

// Resource is the exhausted resource, by its core/v1 resource name.
type Resource string

// The resources that signals measure.
const (
	Memory           Resource = "memory"
	EphemeralStorage Resource = "ephemeral-storage"
	InodeCount       Resource = "inodes"
	PIDCount         Resource = "pids"
)

// Unit is the unit of a signal's amounts.
type Unit uint8

// Units of amounts. Bytes are printed with binary suffixes (Mi), the others with decimal ones
// (k), as in the kubelet.
const (
	UnitBytes Unit = iota
	UnitInodes
	UnitPIDs
)

// Definition is one line of the table of signals.
type Definition struct {
	Name       string
	Unit       Unit
	Resource   Resource
	Condition  Condition
	Filesystem Filesystem
}

var table = [Count]Definition{
	MemoryAvailable:            {"memory.available", UnitBytes, Memory, MemoryPressure, NoFilesystem},
	AllocatableMemoryAvailable: {"allocatableMemory.available", UnitBytes, Memory, MemoryPressure, NoFilesystem},
	NodefsAvailable:            {"nodefs.available", UnitBytes, EphemeralStorage, DiskPressure, Nodefs},
	NodefsInodesFree:           {"nodefs.inodesFree", UnitInodes, InodeCount, DiskPressure, Nodefs},
	ImagefsAvailable:           {"imagefs.available", UnitBytes, EphemeralStorage, DiskPressure, Imagefs},
	ImagefsInodesFree:          {"imagefs.inodesFree", UnitInodes, InodeCount, DiskPressure, Imagefs},
	ContainerfsAvailable:       {"containerfs.available", UnitBytes, EphemeralStorage, DiskPressure, Containerfs},
	ContainerfsInodesFree:      {"containerfs.inodesFree", UnitInodes, InodeCount, DiskPressure, Containerfs},
	PIDAvailable:               {"pid.available", UnitPIDs, PIDCount, PIDPressure, NoFilesystem},
}

// Definition returns the signal's line of the table.
func (s Signal) Definition() Definition { return table[s] }

func (s Signal) String() string {
	if int(s) < Count {
		return table[s].Name
	}
	return fmt.Sprintf("signal(%d)", uint8(s))
}

// Parse returns the signal of that name. It returns an error for an unknown name.
func Parse(name string) (Signal, error) {
	for i := range table {
		if table[i].Name == name {
			return Signal(i), nil
		}
	}
	return 0, fmt.Errorf("unsupported eviction signal %q: use one of %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of all signals in their order.
func Names() []string {
	names := make([]string, Count)
	for i := range table {
		names[i] = table[i].Name
	}
	return names
}

// All yields every signal in acting order.
func All(yield func(Signal) bool) {
	for s := range Signal(Count) {
		if !yield(s) {
			return
		}
	}
}

// OfMemory reports whether early checks act for the signal.
func (s Signal) OfMemory() bool { return table[s].Resource == Memory }

// Set is a set of signals. The zero value is empty.
type Set uint16

// Add adds s to the set.
func (set *Set) Add(s Signal) { *set |= 1 << s }

// Has reports whether s is in the set.
func (set Set) Has(s Signal) bool { return set&(1<<s) != 0 }

// Len returns the number of signals in the set.
func (set Set) Len() int { return bits.OnesCount16(uint16(set)) }

// Names returns the names of the set's signals in acting order; never nil.
func (set Set) Names() []string {
	names := make([]string, 0, set.Len())
	for s := range All {
		if set.Has(s) {
			names = append(names, s.String())
		}
	}
	return names
}
