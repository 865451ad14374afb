package hog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// tmpfs grows a file in memory, holds it, and releases it. Its pages are charged as shared
// memory, which the kernel can not drop like page cache. The file is on the kernel's own tmpfs
// and needs neither mount nor name.
func (p *process) tmpfs(c command) error {
	fd, err := unix.MemfdCreate("plimsoll-hog", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	if err := write(f, c.size, evenPace(c.rate)); err != nil {
		return err
	}
	p.deep(c.size)
	hold(c.duration)
	return f.Truncate(0)
}

// course returns the same random numbers in every run.
func course() *rand.Rand { return rand.New(rand.NewPCG(4, 2)) }

// randomBlock is the maximum block size of random; the minimum is 4 KiB.
const randomBlock = 256 << 10

// random writes a file, and then reads (two of three times) and writes blocks at random offsets
// until the time is over, as fio does. At the end its pages are dropped.
func random(c command) error {
	f, err := scratch(c.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f, c.size, newPace(c.rate)); err != nil {
		return err
	}
	dice, clock := course(), newPace(c.rate)
	done := int64(0)
	for end := time.Now().Add(c.duration); time.Now().Before(end); {
		b := block[:min(page<<dice.IntN(7), c.size, randomBlock)]
		at := dice.Int64N(c.size-int64(len(b))+1) / page * page
		if dice.IntN(3) > 0 {
			_, err = f.ReadAt(b, at)
		} else {
			_, err = f.WriteAt(b, at)
		}
		if err != nil {
			return fmt.Errorf("a block of %d bytes at %d: %w", len(b), at, err)
		}
		done += int64(len(b))
		clock.wait(done)
	}
	if err := f.Sync(); err != nil { // dirty pages can not be dropped
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// unpackBatch is the number of files per fsync batch.
const unpackBatch = 32

// unpack writes files of 4 KiB to 4 MiB into a new directory, like the unpacking of an image,
// syncs them in batches, and removes them. After a kill the files remain, and the owner of DIR
// removes them.
func unpack(c command) (err error) {
	dir, err := os.MkdirTemp(c.dir, "layer-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dice, clock := course(), newPace(c.rate)
	var batch []*os.File
	for done := int64(0); done < c.size; {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			return err
		}
		batch = append(batch, f)
		size := min(page<<dice.IntN(11), c.size-done)
		if err := write(f, size, newPace(0)); err != nil {
			return err
		}
		done += size
		clock.wait(done)
		if len(batch) == unpackBatch || done == c.size {
			if err := force(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}

// force syncs and closes files.
func force(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Sync(), f.Close())
	}
	return errors.Join(errs...)
}
