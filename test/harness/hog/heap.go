package hog

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// How a virtual machine with a garbage collector uses its heap.
const (
	heapBursts = 8                      // in which its start takes the heap into use
	heapWork   = 100 * time.Millisecond // between two of them, and between collections later
)

// jvm reserves a heap, takes it into use in bursts, each followed by a
// collection that gives half of the burst back until the next one touches it
// again, and then lives for a while: time and again the younger half is given
// back and touched anew, so that the course of its memory is a sawtooth. It is
// never larger than the heap, nor grows faster than the rate.
func (p *process) jvm(c command) error {
	part := c.size / heapBursts / (2 * page) * 2 * page
	if part == 0 {
		return fmt.Errorf("a heap of %d bytes: use at least %d", c.size, heapBursts*2*page)
	}
	heap, err := reserve(c.size)
	if err != nil {
		return err
	}
	held := int64(0)
	for end := part; err == nil && end < c.size; end += part {
		touch(heap[held:end], evenPace(c.rate))
		held = end - part/2
		err = collect(heap[held:end])
	}
	touch(heap[held:], evenPace(c.rate))
	p.deep(c.size)
	for end := time.Now().Add(c.duration); err == nil && time.Now().Before(end); {
		young := heap[heapBursts/2*part:]
		if err = collect(young); err == nil {
			touch(young, evenPace(c.rate))
			hold(heapWork)
		}
	}
	if unmapErr := unix.Munmap(heap); err == nil && unmapErr != nil {
		err = fmt.Errorf("unmap %d bytes: %w", c.size, unmapErr)
	}
	return err
}

// collect gives memory back and keeps its addresses; the program works a while
// before it needs them again.
func collect(garbage []byte) error {
	if err := unix.Madvise(garbage, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("give %d bytes of heap back: %w", len(garbage), err)
	}
	hold(heapWork)
	return nil
}
