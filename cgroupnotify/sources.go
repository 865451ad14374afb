package cgroupnotify

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// A Source is something that notifies, or could.
type Source struct {
	Name  string // one of the names below
	Where string // "machine", "node" or "kubepods"
	// Err says why nothing is heard from there, and what to do; nil while it is
	// waited for.
	Err error
}

// The names of sources.
const (
	Threshold    = "memory-threshold" // v1: usage crosses a line
	OOMControl   = "memory-oom"       // v1: the OOM killer is called
	MemoryEvents = "memory-events"    // v2: a limit is met, or the OOM killer called
	PSI          = "psi"              // tasks wait for memory
)

// Where sources are.
const (
	Machine  = "machine"
	Node     = "node"
	Kubepods = "kubepods"
)

// Sources lists what is waited for and what can not be. Any goroutine may call
// it; the list is not to be changed.
func (n *Notifier) Sources() []Source { return *n.published.Load() }

// add puts a source into the list.
func (n *Notifier) source(name, where string) *Source {
	s := &Source{Name: name, Where: where}
	n.sources = append(n.sources, s)
	return s
}

// note says how a source fares: it is published, and reported, when that
// changes.
func (n *Notifier) note(s *Source, err error) {
	if s.Err == err || s.Err != nil && err != nil && s.Err.Error() == err.Error() { //nolint:errorlint // identity is meant
		return
	}
	s.Err = err
	if !n.opened {
		return
	}
	n.publish()
	if n.options.Report != nil {
		n.options.Report(*s)
	}
}

func (n *Notifier) publish() {
	list := make([]Source, len(n.sources))
	for i, s := range n.sources {
		list[i] = *s
	}
	n.published.Store(&list)
}

// passes reports whether a fault may be over without anybody's doing: what it
// was met by is tried again.
func passes(err error) bool {
	return cgroup.IsGone(err) || slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC},
		func(e error) bool { return errors.Is(err, e) })
}
