package hog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// tmpfs grows a file in memory, holds it, and gives it back. Its pages are
// charged as shared memory: they are no page cache that could be dropped. The
// file is of the kernel's own tmpfs, so it needs no mount and no name.
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

// course makes what a hog chooses at random the same in every run.
func course() *rand.Rand { return rand.New(rand.NewPCG(4, 2)) }

// randomBlock is the largest block of random: blocks have 4 KiB to that.
const randomBlock = 256 << 10

// random writes a file, and then reads (two times of three) and writes blocks of
// it anywhere until the time is over, as fio does. At the end its pages are
// dropped.
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
		clock.keep(done)
	}
	if err := f.Sync(); err != nil { // dirty pages can not be dropped
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// unpackBatch is how many files are written before they are forced to disk.
const unpackBatch = 32

// unpack writes files of 4 KiB to 4 MiB into a directory of its own, as an image
// is unpacked, forces them to disk in batches, and removes them. A hog that is
// killed meanwhile leaves them to who made DIR.
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
		clock.keep(done)
		if len(batch) == unpackBatch || done == c.size {
			if err := force(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}

// force has files on disk, and closes them.
func force(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Sync(), f.Close())
	}
	return errors.Join(errs...)
}
