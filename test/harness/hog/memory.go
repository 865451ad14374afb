package hog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var page = int64(os.Getpagesize())

// pace spreads bytes over time against absolute deadlines.
type pace struct {
	rate    int64 // bytes per second; 0: unlimited
	begin   time.Time
	forgets bool // drops the backlog of a stall: it remains late
}

func newPace(rate int64) pace { return pace{rate: rate, begin: time.Now()} }

// evenPace never catches up after a stall: for memory courses with a known maximum rate.
func evenPace(rate int64) pace { return pace{rate: rate, begin: time.Now(), forgets: true} }

// stall is the minimum delay that counts as a stall and not as a late wake-up.
const stall = 5 * time.Millisecond

// step returns the number of bytes between two reads of the clock: about a millisecond at the
// rate, at least a page.
func (p pace) step() int64 {
	if p.rate == 0 {
		return 4 << 20
	}
	return max(p.rate/1000/page*page, page)
}

// wait waits until done bytes are due.
func (p *pace) wait(done int64) {
	if p.rate == 0 {
		return
	}
	for left := p.left(done); left > 0; left = p.left(done) {
		pause := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&pause, nil) // the clock decides, even after an interrupt
	}
}

// left returns the time until done bytes are due; zero or less: due.
func (p *pace) left(done int64) time.Duration {
	due := time.Duration(float64(done) / float64(p.rate) * float64(time.Second))
	left := due - time.Since(p.begin)
	if p.forgets && left < -stall {
		p.begin = p.begin.Add(-left)
	}
	return left
}

// fill maps memory and touches every page of it.
func (p *process) fill(size int64, clock pace) error {
	if size == 0 {
		return nil
	}
	m, err := reserve(size)
	if err != nil {
		return err
	}
	p.regions = append(p.regions, m)
	touch(m, clock)
	return nil
}

// reserve maps memory without a charge before it is touched.
func reserve(size int64) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return nil, errors.Join(fmt.Errorf("forbid huge pages: %w", err), unix.Munmap(m)) // EINVAL: the kernel does not support them
	}
	return m, nil
}

// touch writes to every page.
func touch(m []byte, clock pace) {
	size := int64(len(m))
	for done := int64(0); done < size; {
		end := min(done+clock.step(), size)
		for ; done < end; done += page {
			m[done] = 1
		}
		clock.wait(min(done, size))
	}
}

// release unmaps all memory.
func (p *process) release() error {
	for _, m := range p.regions {
		if err := unix.Munmap(m); err != nil {
			return fmt.Errorf("unmap %d bytes: %w", len(m), err)
		}
	}
	p.regions = nil
	return nil
}

// dip grows, reports its lowest point, holds, and releases its memory.
func (p *process) dip(c command) error {
	if err := p.fill(c.size, evenPace(c.rate)); err != nil {
		return err
	}
	p.deep(c.size)
	hold(c.duration)
	last := len(p.regions) - 1
	if last < 0 || c.size == 0 {
		return nil
	}
	m := p.regions[last]
	p.regions = p.regions[:last]
	if err := unix.Munmap(m); err != nil {
		return fmt.Errorf("unmap %d bytes: %w", len(m), err)
	}
	return nil
}

// deep reports that a command has reached its maximum memory.
func (p *process) deep(size int64) { fmt.Fprintf(p.out, "deep %d\n", size) }

// hold waits without a change of memory.
func hold(d time.Duration) {
	pause := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&pause, &pause) != nil { // EINTR: sleep for the rest
	}
}
