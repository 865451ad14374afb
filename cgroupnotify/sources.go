package cgroupnotify

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Source is one kind of notification, available or not.
type Source struct {
	Name  string // one of the names below
	Where string // "machine", "node" or "kubepods"
	// Err is the cause for which the source is unavailable, with a remedy; nil while it is
	// watched.
	Err error
}

// The names of sources.
const (
	Threshold    = "memory-threshold" // v1: usage crosses a line
	OOMControl   = "memory-oom"       // v1: the OOM killer is called
	MemoryEvents = "memory-events"    // v2: a limit is met, or the OOM killer called
	PSI          = "psi"              // tasks wait for memory
)

// Values of Source.Where.
const (
	Machine  = "machine"
	Node     = "node"
	Kubepods = "kubepods"
)

// Sources returns the available and unavailable sources. It is safe on any goroutine; the list
// must not be modified.
func (n *Notifier) Sources() []Source { return *n.published.Load() }

// source adds a source to the list.
func (n *Notifier) source(name, where string) *Source {
	s := &Source{Name: name, Where: where}
	n.sources = append(n.sources, s)
	return s
}

// note records the state of a source. A change is published and reported.
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

// isTransient reports whether a failure may end without an intervention, and is therefore
// retried.
func isTransient(err error) bool {
	return cgroup.IsGone(err) || slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC},
		func(e error) bool { return errors.Is(err, e) })
}
