package hog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var page = int64(os.Getpagesize())

// A pace spreads bytes over time against absolute deadlines.
type pace struct {
	rate    int64 // bytes per second, 0 is unpaced
	begin   time.Time
	forgets bool // what a stall owes: it is late for good
}

func newPace(rate int64) pace { return pace{rate: rate, begin: time.Now()} }

// evenPace never hurries to make up for a stall: for courses of memory that are
// known beforehand by how fast they are at the most.
func evenPace(rate int64) pace { return pace{rate: rate, begin: time.Now(), forgets: true} }

// stall is how late a pace is that has been stalled, not merely woken late.
const stall = 5 * time.Millisecond

// step is how many bytes to do between two looks at the clock: about a
// millisecond's worth, and at least a page.
func (p pace) step() int64 {
	if p.rate == 0 {
		return 4 << 20
	}
	return max(p.rate/1000/page*page, page)
}

// keep waits until done bytes are due.
func (p *pace) keep(done int64) {
	if p.rate == 0 {
		return
	}
	for left := p.left(done); left > 0; left = p.left(done) {
		pause := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&pause, nil) // interrupted or not, the clock decides
	}
}

// left returns how long it is until done bytes are due; zero or less: they are.
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

// reserve maps memory that costs nothing until it is touched.
func reserve(size int64) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return nil, errors.Join(fmt.Errorf("forbid huge pages: %w", err), unix.Munmap(m)) // EINVAL: the kernel has none
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
		clock.keep(min(done, size))
	}
}

// release gives all memory back.
func (p *process) release() error {
	for _, m := range p.regions {
		if err := unix.Munmap(m); err != nil {
			return fmt.Errorf("unmap %d bytes: %w", len(m), err)
		}
	}
	p.regions = nil
	return nil
}

// dip grows, says so, holds, and gives back what it took.
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

// deep says that a command has taken all it will take.
func (p *process) deep(size int64) { fmt.Fprintf(p.out, "deep %d\n", size) }

// hold lets time pass with what is held.
func hold(d time.Duration) {
	pause := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&pause, &pause) != nil { // EINTR: the rest of it
	}
}
