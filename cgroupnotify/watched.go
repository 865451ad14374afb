package cgroupnotify

import (
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// watched is the node's cgroup, or kubepods. It may vanish at any time and be recreated under
// the same path or another. Its directory stays open, so that all watched files belong to one
// cgroup.
type watched struct {
	n        *Notifier
	where    string
	signal   signals.Signal // the signal of the lines in this cgroup
	find     func() (path string, err error)
	root     func() string // its current path; nil for a fixed one
	channels []channel

	at     string      // the result of find
	dir    *cgroup.Dir // nil without a cgroup
	memory *cgroup.Memory
}

// channel is one kind of notification for a cgroup. Its events arrive through the set; its
// failures are handled by the cgroup, see failed.
type channel interface {
	// open opens the watched files; the cgroup exists.
	open() error
	// close closes them; repeated calls are valid.
	close()
	// entry returns its element of the list of sources.
	entry() *Source
}

// retry opens the cgroup if it is closed, else the channels with a recoverable failure. It
// allocates nothing without failures, or while kubepods does not exist.
func (c *watched) retry() {
	if c.dir == nil {
		c.open()
		return
	}
	if _, err := c.memory.Usage(); err != nil {
		c.lost(err)
		return
	}
	if c.root != nil && c.root() != c.at { // the open one was a leftover
		c.close()
		c.open()
		return
	}
	for _, ch := range c.channels {
		if s := ch.entry(); s.Err != nil && isTransient(s.Err) {
			c.n.note(s, ch.open())
		}
	}
}

func (c *watched) open() {
	err := c.openMemory()
	for _, ch := range c.channels {
		if err == nil {
			c.n.note(ch.entry(), ch.open())
		} else {
			c.n.note(ch.entry(), err)
		}
	}
}

func (c *watched) openMemory() error {
	at, err := c.find()
	if err != nil {
		return err
	}
	h := c.n.options.Hierarchy
	dir, err := cgroup.OpenDir(h, "memory", at)
	if err != nil {
		return err
	}
	memory, err := dir.OpenMemory(h.Version, c.n.buf)
	if err != nil {
		dir.Close()
		return err
	}
	c.at, c.dir, c.memory = at, dir, memory
	return nil
}

// lost closes a removed cgroup until another one exists.
func (c *watched) lost(err error) {
	c.close()
	for _, ch := range c.channels {
		c.n.note(ch.entry(), err)
	}
}

// failed closes one failed channel, or all if the cgroup is gone.
func (c *watched) failed(ch channel, err error) {
	if cgroup.IsGone(err) {
		c.lost(err)
		return
	}
	ch.close()
	c.n.note(ch.entry(), err)
}

func (c *watched) close() {
	for _, ch := range c.channels {
		ch.close()
	}
	if c.dir != nil {
		c.memory.Close()
		c.dir.Close()
		c.dir, c.memory = nil, nil
	}
}

// alive returns an error if the cgroup is gone. All its eventfds fire once then, without an
// event.
func (c *watched) alive() error {
	_, err := c.memory.Usage()
	return err
}
