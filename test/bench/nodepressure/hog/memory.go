package hog

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// region is memory, of which the first part is touched.
type region struct {
	memory  []byte
	touched int64
}

// grow maps memory and touches every page of it.
func (p *process) grow(size int64, pace pace) error {
	if size <= 0 {
		return nil
	}
	m, err := reserve(size)
	if err != nil {
		return err
	}
	p.regions = append(p.regions, region{m, int64(len(m))})
	touch(m, pace)
	return nil
}

// reserve maps memory without a charge before it is touched.
func reserve(size int64) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: a kernel without them
		return nil, errors.Join(fmt.Errorf("forbid huge pages: %w", err), unix.Munmap(m))
	}
	return m, nil
}

// touch writes to every page.
func touch(m []byte, pace pace) {
	size := int64(len(m))
	for done := int64(0); done < size; {
		for end := min(done+pace.step(), size); done < end; done += page {
			m[done] = 1
		}
		pace.wait(min(done, size))
	}
}

// release gives memory back, the newest first; 0 bytes: all.
func (p *process) release(size int64) error {
	all := size == 0
	for i := len(p.regions) - 1; i >= 0 && (all || size > 0); i-- {
		r := &p.regions[i]
		part := r.touched
		if !all {
			part = min(part, (size+page-1)/page*page)
		}
		if part == 0 {
			continue
		}
		kept := (r.touched - part) / page * page
		if err := unix.Madvise(r.memory[kept:r.touched], unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("release %d bytes: %w", part, err)
		}
		r.touched = kept
		size -= part
	}
	return nil
}

// dirty writes to pages that are touched already, from the oldest on, and begins again after the
// newest.
func (p *process) dirty(size int64, pace pace) error {
	total := int64(0)
	for _, r := range p.regions {
		total += r.touched
	}
	if total == 0 {
		return errors.New("no memory to write to: grow first")
	}
	for done := int64(0); done < size; {
		for _, r := range p.regions {
			for at := int64(0); at < r.touched && done < size; at += page {
				r.memory[at]++
				if done += page; done%pace.step() < page {
					pace.wait(done)
				}
			}
		}
	}
	return nil
}

// growShared grows a file in memory. Its pages are shared memory, which outlives the process that wrote
// them as long as another one has the file open.
func (p *process) growShared(size int64, pace pace) error {
	if p.shared == nil {
		if err := p.openShared(); err != nil {
			return err
		}
	}
	return appendTo(p.shared, size, pace)
}
