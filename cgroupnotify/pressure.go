package cgroupnotify

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// triggers are the requests to the kernel in the order of preference: tasks waited for memory
// for 5 % of a window. Windows other than multiples of 2 s need CAP_SYS_RESOURCE; before Linux
// 6.4 all do. Each text ends with a newline because the kernel drops the last byte.
var triggers = [...][]byte{[]byte("some 25000 500000\n"), []byte("some 100000 2000000\n")}

// pressure watches stalls of the machine or of a version 2 cgroup. These include stalls of pods
// at their own limits, so the pace is slow.
type pressure struct {
	n       *Notifier
	c       *watched // nil for the machine
	source  *Source
	pace    pace
	handler *handler
}

func (n *Notifier) newMachinePressure() *pressure {
	p := &pressure{n: n, source: n.source(PSI, Machine), pace: far}
	n.note(p.source, p.open())
	return p
}

func newPressure(c *watched) *pressure {
	return &pressure{n: c.n, c: c, source: c.n.source(PSI, c.where), pace: far}
}

func (p *pressure) entry() *Source { return p.source }

// possible reports whether the kernel has pressure stall information. If the machine's is
// missing, so is that of all cgroups, and it is reported once.
func (p *pressure) possible() bool {
	return !errors.Is(p.source.Err, unix.ENOENT) && !errors.Is(p.source.Err, unix.EOPNOTSUPP)
}

// retry reopens the machine's pressure file after a lack of descriptors.
func (p *pressure) retry() {
	if p.source.Err != nil && p.possible() && isTransient(p.source.Err) {
		p.n.note(p.source, p.open())
	}
}

func (p *pressure) open() error {
	fd, err := p.openFile()
	if err != nil {
		return err
	}
	if err := trigger(fd); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("set a trigger for memory stalls of %s: %w", p.source.Where, err)
	}
	p.handler, err = p.n.set.add(p, fd, &p.pace, unix.EPOLLPRI)
	return err
}

func (p *pressure) openFile() (int, error) {
	const flags = unix.O_RDWR | unix.O_NONBLOCK | unix.O_CLOEXEC
	if p.c != nil {
		return p.c.dir.Open("memory.pressure", flags)
	}
	name := filepath.Join(p.n.options.ProcRoot, "pressure/memory")
	fd, err := unix.Open(name, flags, 0)
	if errors.Is(err, unix.EROFS) { // the host's /proc is mounted read-only: a container's own has the same content
		name = "/proc/pressure/memory"
		fd, err = unix.Open(name, flags, 0)
	}
	var errno unix.Errno
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP):
		return -1, fmt.Errorf("open %s: %w: this kernel has no pressure stall information, or was booted without: boot it with psi=1", name, err)
	case errors.As(err, &errno):
		err = &cgroup.ReadError{Op: "open", Path: name, Errno: errno}
	}
	return -1, err
}

// trigger requests the shortest window that the kernel permits.
func trigger(fd int) (err error) {
	for _, text := range triggers {
		if err = write(fd, text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: give the agent CAP_SYS_RESOURCE, or run it on Linux 6.4 or later", err)
}

func (p *pressure) close() {
	p.n.set.remove(p.handler)
	p.handler = nil
}

// handle handles a stall. The trigger of a removed cgroup is permanently in error.
func (p *pressure) handle(_ int, state uint32) (signals.Wakes, error) {
	if state&unix.EPOLLERR != 0 {
		return 0, fmt.Errorf("wait for memory stalls of %s: the trigger is gone: %w", p.source.Where, unix.ENODEV)
	}
	return signals.ByStall, nil
}

func (p *pressure) fail(err error) {
	if p.c != nil {
		p.c.failed(p, err)
		return
	}
	p.close()
	p.n.note(p.source, err)
}
