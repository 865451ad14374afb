package hog

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The heap usage of a virtual machine with a garbage collector.
const (
	heapBursts = 8                      // bursts in which the start touches the heap
	heapWork   = 100 * time.Millisecond // between two bursts, and between later collections
)

// jvm reserves a heap and touches it in bursts. A collection after each burst releases half of
// it until the next burst touches it again. Later the younger half is repeatedly released and
// touched again, so that its memory is a sawtooth. It never exceeds the heap size or the rate.
func (p *process) jvm(c command) error {
	part := c.size / heapBursts / (2 * page) * 2 * page
	if part == 0 {
		return fmt.Errorf("a heap of %d bytes: use at least %d", c.size, heapBursts*2*page)
	}
	heap, err := reserve(c.size)
	if err != nil {
		return err
	}
	grown := int64(0)
	for end := part; err == nil && end < c.size; end += part {
		touch(heap[grown:end], evenPace(c.rate))
		grown = end - part/2
		err = collect(heap[grown:end])
	}
	touch(heap[grown:], evenPace(c.rate))
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

// collect releases memory without unmapping it. The program works for a while before it touches
// the addresses again.
func collect(garbage []byte) error {
	if err := unix.Madvise(garbage, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("give %d bytes of heap back: %w", len(garbage), err)
	}
	hold(heapWork)
	return nil
}
