package cgroupnotify

import (
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// A watched cgroup is the node's, or kubepods. It may vanish at any time, and be
// made again under the same path or another: its directory stays open, so that
// all files watched are of one cgroup.
type watched struct {
	n        *Notifier
	where    string
	signal   signals.Signal // the one whose lines are drawn in this cgroup
	find     func() (path string, err error)
	root     func() string // where it is by now; nil: where it was
	channels []channel

	at     string      // what find has returned
	dir    *cgroup.Dir // nil while there is none
	memory *cgroup.Memory
}

// A channel is one way in which the kernel tells of a cgroup. What it hears is
// heard in the set; that it failed there is the cgroup's business, see failed.
type channel interface {
	// open opens what is to be watched; the cgroup is there.
	open() error
	// close closes it; it may be closed already.
	close()
	// told is its place in the list of sources.
	told() *Source
}

// retry opens the cgroup if there is none, and otherwise those of its channels
// that may have become possible. It allocates nothing while all is well, nor
// while there is no kubepods.
func (c *watched) retry() {
	if c.dir == nil {
		c.open()
		return
	}
	if _, err := c.memory.Usage(); err != nil {
		c.lost(err)
		return
	}
	if c.root != nil && c.root() != c.at { // it was a leftover
		c.close()
		c.open()
		return
	}
	for _, ch := range c.channels {
		if s := ch.told(); s.Err != nil && passes(s.Err) {
			c.n.note(s, ch.open())
		}
	}
}

func (c *watched) open() {
	err := c.openMemory()
	for _, ch := range c.channels {
		if err == nil {
			c.n.note(ch.told(), ch.open())
		} else {
			c.n.note(ch.told(), err)
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

// lost gives up a cgroup that was removed, until there is another.
func (c *watched) lost(err error) {
	c.close()
	for _, ch := range c.channels {
		c.n.note(ch.told(), err)
	}
}

// failed gives up what failed: one channel, or all if the cgroup is gone.
func (c *watched) failed(ch channel, err error) {
	if cgroup.IsGone(err) {
		c.lost(err)
		return
	}
	ch.close()
	c.n.note(ch.told(), err)
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

// alive is an error if the cgroup is gone: its eventfds all fire once then, and
// say nothing.
func (c *watched) alive() error {
	_, err := c.memory.Usage()
	return err
}
