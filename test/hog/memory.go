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
	rate  int64 // bytes per second, 0 is unpaced
	begin time.Time
}

func newPace(rate int64) pace { return pace{rate, time.Now()} }

// step is how many bytes to do between two looks at the clock: about a
// millisecond's worth, and at least a page.
func (p pace) step() int64 {
	if p.rate == 0 {
		return 4 << 20
	}
	return max(p.rate/1000/page*page, page)
}

// keep waits until done bytes are due.
func (p pace) keep(done int64) {
	if p.rate == 0 {
		return
	}
	due := time.Duration(float64(done) / float64(p.rate) * float64(time.Second))
	for {
		left := due - time.Since(p.begin)
		if left <= 0 {
			return
		}
		pause := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&pause, nil) // interrupted or not, the clock decides
	}
}

// fill maps memory and touches every page of it.
func (p *process) fill(size, rate int64) error {
	if size == 0 {
		return nil
	}
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", size, err)
	}
	p.regions = append(p.regions, m)
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("forbid huge pages: %w", err) // EINVAL: the kernel has none
	}
	clock := newPace(rate)
	for done := int64(0); done < size; {
		end := min(done+clock.step(), size)
		for ; done < end; done += page {
			m[done] = 1
		}
		clock.keep(min(done, size))
	}
	return nil
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
	if err := p.fill(c.size, c.rate); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "deep %d\n", c.size)
	pause := unix.NsecToTimespec(int64(c.duration))
	for unix.Nanosleep(&pause, &pause) != nil { // EINTR: the rest of it
	}
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
