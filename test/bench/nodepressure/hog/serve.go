package hog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// Request is one request of the neighbour, by the clock of [gauge.Clock].
type Request struct {
	Due     int64 // ns
	Latency int64 // ns from Due to the answer
}

// words maps a file of 64-bit numbers. What is written survives the writer.
func words(file string) (numbers []int64, err error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", file, err)
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(&m[0])), len(m)/8), nil
}

// create writes a file of zeros. The creator's cgroup is charged, not the writers'.
func create(file string, numbers int) error {
	return os.WriteFile(file, make([]byte, 8*numbers), 0o600)
}

// numbers reads a file that another process may have mapped.
func numbers(file string) ([]int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := make([]int64, len(text)/8)
	for i := range all {
		all[i] = int64(binary.NativeEndian.Uint64(text[8*i:]))
	}
	if len(all) < 3 {
		return nil, fmt.Errorf("%s has %d numbers: it is no record", file, len(all))
	}
	return all, nil
}

// CreateRecords creates the file for the requests of a time. Returns the error of the file system.
func CreateRecords(file string, rate int, d time.Duration) error {
	return create(file, 2+2*int(float64(rate)*d.Seconds()))
}

// ReadRecords returns the requests that are answered so far. Returns an error if the file can not be
// read.
func ReadRecords(file string) ([]Request, error) {
	w, err := numbers(file)
	if err != nil {
		return nil, err
	}
	all := make([]Request, min(w[0], int64(len(w)-2)/2))
	for i := range all {
		all[i] = Request{w[2+2*i], w[3+2*i]}
	}
	return all, nil
}

// Sizes of one request.
const (
	pagesPerRequest  = 64
	hashedPerRequest = 64 << 10
)

// run serves until the process ends, or the file of records is full.
func (s *Serve) run(ready func() error) error {
	records, err := words(s.Records)
	if err != nil {
		return err
	}
	if s.Rate <= 0 || s.Working < hashedPerRequest {
		return errors.New("a neighbour needs a rate and a working set of 64 KiB")
	}
	working, err := reserve(s.Working)
	if err != nil {
		return err
	}
	touch(working, newPace(0))
	if err := ready(); err != nil {
		return err
	}
	interval := int64(time.Second) / int64(s.Rate)
	dice := rand.New(rand.NewPCG(1, 2))
	begin := gauge.Clock()
	for i := 0; 2+2*i+1 < len(records); i++ {
		due := begin + int64(i)*interval
		sleep(time.Duration(due - gauge.Clock()))
		if err := s.answer(working, dice); err != nil {
			return err
		}
		records[2+2*i], records[3+2*i] = due, gauge.Clock()-due
		atomic.StoreInt64(&records[0], int64(i+1))
	}
	return nil
}

// answer does the work of one request: it computes, uses its working set, and allocates.
func (s *Serve) answer(working []byte, dice *rand.Rand) error {
	for range pagesPerRequest {
		working[dice.Int64N(int64(len(working)))]++
	}
	working[0] = byte(crc32.ChecksumIEEE(working[:hashedPerRequest]))
	fresh, err := reserve(s.Fresh)
	if err != nil {
		return err
	}
	touch(fresh, newPace(0))
	return unix.Munmap(fresh)
}

// CreateBeat creates the file of the heartbeat. Returns the error of the file system.
func CreateBeat(file string) error { return create(file, 3) }

// ResetBeat forgets the gaps so far. Returns the error of the file system.
func ResetBeat(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, 8), 2*8)
	return errors.Join(err, f.Close())
}

// Beat is the record of the heartbeat.
type Beat struct {
	Last   int64 // by gauge.Clock
	Count  int64
	MaxGap int64 // ns between two beats
}

// ReadBeat returns the record. Returns an error if the file can not be read.
func ReadBeat(file string) (Beat, error) {
	w, err := numbers(file)
	if err != nil {
		return Beat{}, err
	}
	return Beat{w[0], w[1], w[2]}, nil
}

// beatInterval is the time between two beats. The heartbeat needs what a daemon of a node needs: CPU,
// a file of the kernel, and a little fresh memory.
const (
	beatInterval = 100 * time.Millisecond
	beatMemory   = 256 << 10
)

func beat(file string, ready func() error) error {
	w, err := words(file)
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	for last := gauge.Clock(); ; sleep(beatInterval) {
		if _, err := os.ReadFile("/proc/meminfo"); err != nil {
			return err
		}
		fresh, err := reserve(beatMemory)
		if err != nil {
			return err
		}
		touch(fresh, newPace(0))
		if err := unix.Munmap(fresh); err != nil {
			return err
		}
		now := gauge.Clock()
		atomic.StoreInt64(&w[2], max(atomic.LoadInt64(&w[2]), now-last))
		atomic.StoreInt64(&w[0], now)
		atomic.AddInt64(&w[1], 1)
		last = now
	}
}
