package ring

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// memory is a storage with a disk of limited space. Space of a segment is reserved when it is
// created, if reserves is true.
type memory struct {
	t        *testing.T
	limit    int64 // that all segments together must never exceed
	reserves bool
	hang     chan struct{} // if not nil, writes wait for it

	mu       sync.Mutex
	free     int64
	sticky   bool // segments can not be removed
	segments []*memorySegment
	removed  int
	peak     int64
}

type memorySegment struct {
	of       *memory
	number   uint64
	data     []byte
	reserved int64
	closed   bool
}

func (s *memorySegment) bytes() int64 { return max(int64(len(s.data)), s.reserved) }

// check checks the bound. The caller holds mu.
func (m *memory) check() {
	var total int64
	for _, s := range m.segments {
		total += s.bytes()
	}
	if m.peak = max(m.peak, total); total > m.limit {
		m.t.Errorf("%d bytes in %d segments, at most %d", total, len(m.segments), m.limit)
	}
}

func (m *memory) list() (all []Segment, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.segments {
		all = append(all, Segment{Number: s.number, Size: int64(len(s.data)), bytes: s.bytes()})
	}
	return all, nil
}

func (m *memory) create(number uint64, bytes int64) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &memorySegment{of: m, number: number}
	if m.reserves {
		if m.free < bytes {
			return nil, syscall.ENOSPC
		}
		m.free -= bytes
		s.reserved = bytes
	}
	m.segments = append(m.segments, s)
	m.check()
	return s, nil
}

func (m *memory) remove(number uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sticky {
		return syscall.EROFS
	}
	m.segments = slices.DeleteFunc(m.segments, func(s *memorySegment) bool {
		if s.number != number {
			return false
		}
		m.free += s.bytes()
		m.removed++
		return true
	})
	return nil
}

func (m *memory) close() {}

func (s *memorySegment) Write(b []byte) (int, error) {
	if s.of.hang != nil {
		<-s.of.hang
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	n := len(b)
	if grows := int64(len(s.data)+n) - s.bytes(); grows > s.of.free {
		n -= int(grows - s.of.free)
	}
	before := s.bytes()
	s.data = append(s.data, b[:n]...)
	s.of.free -= s.bytes() - before
	s.of.check()
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (s *memorySegment) Truncate(size int64) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	before := s.bytes()
	s.data, s.reserved = s.data[:size], 0
	s.of.free += before - s.bytes()
	return nil
}

func (s *memorySegment) Close() error {
	if s.closed {
		s.of.t.Error("a segment was closed twice")
	}
	s.closed = true
	return nil
}

// read returns the checks of the segments in order, and the damage.
func (m *memory) read() (checks []*recording.Check, damage recording.Damage) {
	var all []byte
	for _, s := range m.segments {
		all = append(all, s.data...)
	}
	return readChecks(all)
}

func readChecks(data []byte) (checks []*recording.Check, damage recording.Damage) {
	r := recording.NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		if e.Check != nil {
			checks = append(checks, e.Check)
		}
	}
	return checks, r.Damage()
}

// disk returns a storage with room for the smallest ring.
func disk(t *testing.T) *memory {
	return &memory{t: t, limit: MinSize, free: 1 << 30, reserves: true}
}

func options() Options {
	return Options{Size: MinSize, Header: recording.Header{Version: "1", Started: time.Now()}}
}

// offer offers the n-th check. Large ones take about 13 KiB.
func offer(r *Ring, n int, large bool) (accepted bool) {
	e := r.Next()
	if e == nil {
		return false
	}
	now := time.Now()
	e.Check.Seq = uint64(n)
	e.Check.Snapshot.At = now
	e.Check.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(signals.Amount(n), 1<<40, now)
	if large {
		e.Check.Act = &recording.Act{Measured: make([][]signals.Candidate, 1)}
		for i := range 400 {
			e.Check.Act.Blocks = append(e.Check.Act.Blocks, fmt.Sprintf("a reason that differs: %08d", i*n))
		}
	}
	if n%100 == 0 {
		e.State = map[string]int{"n": n}
	}
	r.Commit(now, true)
	return true
}

// inBubble runs a ring in virtual time until run returns.
func inBubble(t *testing.T, m *memory, o func() Options, run func(*Ring)) *Ring {
	t.Helper()
	var r *Ring
	synctest.Test(t, func(*testing.T) {
		r = start(o(), func() (storage, error) { return m, nil })
		run(r)
		r.Close()
		synctest.Wait()
	})
	return r
}

func TestRing_StaysWithinBound(t *testing.T) {
	for _, reserves := range []bool{true, false} {
		m := disk(t)
		m.reserves = reserves
		r := inBubble(t, m, options, func(r *Ring) {
			for n := range 5000 { // about 60 MiB
				if !offer(r, n, true) {
					t.Fatal("the queue is full in front of a fast disk")
				}
				synctest.Wait()
			}
		})
		checks, damage := m.read()
		if damage != (recording.Damage{}) || m.removed == 0 || m.peak < MinSize*3/4 || r.Dropped() != 0 {
			t.Errorf("reserves %v: %+v, %d segments removed, up to %d bytes used, %d dropped", reserves, damage, m.removed, m.peak, r.Dropped())
		}
		for i, c := range checks {
			if c.Seq != checks[0].Seq+uint64(i) || c.Lost != 0 {
				t.Fatalf("check %d follows %d", c.Seq, i)
			}
		}
		if last := checks[len(checks)-1].Seq; last != 4999 {
			t.Errorf("the last check is %d", last)
		}
	}
}

// A disk that hangs delays nothing. The next check that is stored has the number of lost ones.
func TestRing_DropsWhileDiskHangs(t *testing.T) {
	m := disk(t)
	r := inBubble(t, m, func() Options { m.hang = make(chan struct{}); return options() }, func(r *Ring) {
		begun, rejected := time.Now(), 0
		for n := range 2000 {
			if !offer(r, n, false) {
				rejected++
			}
		}
		if waited := time.Since(begun); waited != 0 || rejected != 2000-queueLength || r.Dropped() != int64(rejected) {
			t.Errorf("waited %s, %d rejected, %d dropped", waited, rejected, r.Dropped())
		}
		close(m.hang)
		synctest.Wait()
		offer(r, 2000, false)
	})
	checks, damage := m.read()
	last := checks[len(checks)-1]
	if len(checks) != queueLength+1 || last.Seq != 2000 || last.Lost != uint64(r.Dropped()) || damage != (recording.Damage{}) {
		t.Errorf("%d checks, the last one is %d after %d lost ones, %+v", len(checks), last.Seq, last.Lost, damage)
	}
}

func TestRing_CloseDoesNotWaitForHangingDisk(t *testing.T) {
	m := disk(t)
	synctest.Test(t, func(t *testing.T) {
		m.hang = make(chan struct{})
		r := start(options(), func() (storage, error) { return m, nil })
		offer(r, 1, false)
		begun := time.Now()
		if ended := r.Close(); ended || time.Since(begun) != closeWait {
			t.Errorf("waited %s, ended: %t", time.Since(begun), ended)
		}
		close(m.hang)
	})
}

func TestRing_BoundsWaitingMeasurements(t *testing.T) {
	m := disk(t)
	inBubble(t, m, func() Options { m.hang = make(chan struct{}); return options() }, func(r *Ring) {
		n, usage := 0, &signals.Usage{Containers: make([]signals.ContainerUsage, 3), Volumes: make([]signals.VolumeUsage, 6)}
		for ; !r.MeasurementsWait(); n++ {
			measured := make([]signals.Candidate, 500) // of ten parts each
			for i := range measured {
				measured[i] = signals.Candidate{Pod: &signals.Pod{UID: fmt.Sprint(i)}, Usage: usage}
			}
			e := r.Next()
			e.Check.Act = &recording.Act{Measured: [][]signals.Candidate{measured}}
			r.Commit(time.Now(), true)
		}
		if n != maxWaitingParts/5000 {
			t.Errorf("%d measurements wait", n)
		}
		close(m.hang)
		synctest.Wait()
		if r.MeasurementsWait() {
			t.Error("measurements wait after they were stored")
		}
	})
}

// Pods with more data than a segment are recorded in part. They end no segment and cost no history.
func TestRing_LargePodsCostNoHistory(t *testing.T) {
	m, u := disk(t), &recording.Usage{}
	for i := range 60 {
		p := &signals.Pod{UID: fmt.Sprint(i)}
		for j := range 400 {
			p.Volumes = append(p.Volumes, signals.Volume{Name: fmt.Sprintf("%063d", j)})
		}
		u.Pods = append(u.Pods, recording.PodUsage{Pod: p})
	}
	r := inBubble(t, m, func() Options {
		o := options()
		o.Usage = func() *recording.Usage {
			u.At = time.Now()
			return u
		}
		return o
	}, func(r *Ring) {
		for n := range 30 {
			offer(r, n, false)
			<-time.After(10 * time.Second)
		}
	})
	checks, damage := m.read()
	if len(m.segments) != 1 || len(checks) != 30 || r.Dropped() != 0 || damage != (recording.Damage{}) {
		t.Errorf("%d segments, %d checks, %d dropped, %+v", len(m.segments), len(checks), r.Dropped(), damage)
	}
}

// Pods that are created all the time end a segment after a while, so that new ones have room.
func TestRing_ManyPodsEndSegmentsSeldom(t *testing.T) {
	m := disk(t)
	m.limit, m.free = DefaultSize, 1<<30
	next := 0
	inBubble(t, m, func() Options {
		o := options()
		o.Size = DefaultSize
		o.Usage = func() *recording.Usage {
			u := &recording.Usage{At: time.Now()}
			for range 500 {
				next++
				u.Pods = append(u.Pods, recording.PodUsage{Pod: &signals.Pod{UID: fmt.Sprint(next), Name: fmt.Sprintf("%0200d", next)}})
			}
			return u
		}
		return o
	}, func(r *Ring) {
		for n := range 180 { // half an hour
			offer(r, n, false)
			<-time.After(10 * time.Second)
		}
	})
	if n := len(m.segments); n < 3 || n > 4 || m.removed > 0 {
		t.Errorf("%d segments in half an hour, %d removed", n, m.removed)
	}
}

// A full disk costs no history: recording continues in the reserved space, pauses, and continues
// when there is room.
func TestRing_FullDisk(t *testing.T) {
	for _, reserves := range []bool{true, false} {
		m := disk(t)
		m.reserves = reserves
		var failures []error
		var taken int64
		o := options()
		o.Failed = func(err error) { failures = append(failures, err) }
		inBubble(t, m, func() Options { o.Header.Started = time.Now(); return o }, func(r *Ring) {
			n := 0
			write := func(count int) {
				for range count {
					offer(r, n, true)
					synctest.Wait()
					n++
				}
			}
			write(10)
			m.mu.Lock()
			taken, m.free = m.free-20_000, 20_000 // another program fills the disk
			m.mu.Unlock()
			before := len(m.segments)
			for range 20 {
				write(10)
				<-time.After(time.Second)
			}
			if reserves && r.Dropped() == 0 { // the reserved MiB is full after 80 checks
				t.Error("nothing was dropped")
			}
			if checks, _ := m.read(); reserves && len(checks) < 70 || len(m.segments) < before || m.removed > before {
				t.Errorf("reserves %v: %d checks, %d segments, %d removed", reserves, len(checks), len(m.segments), m.removed)
			}
			m.mu.Lock()
			m.free += taken
			m.mu.Unlock()
			<-time.After(retryPause)
			write(10)
		})
		checks, damage := m.read()
		last := checks[len(checks)-1]
		if last.Seq != 219 || damage.Any() || damage.Tail > 0 {
			t.Errorf("reserves %v: the last check is %d, %+v", reserves, last.Seq, damage)
		}
		var lost uint64
		for i, c := range checks {
			if i > 0 && c.Seq != checks[i-1].Seq+1+c.Lost {
				t.Errorf("check %d with %d lost ones follows %d", c.Seq, c.Lost, checks[i-1].Seq)
			}
			lost += c.Lost
		}
		if len(failures) < 2 || !errors.Is(failures[0], syscall.ENOSPC) || failures[len(failures)-1] != nil || lost == 0 {
			t.Errorf("reserves %v: reported %v, %d lost", reserves, failures, lost)
		}
	}
}

func TestRing_KeepsBoundIfNothingCanBeRemoved(t *testing.T) {
	m := disk(t)
	m.sticky = true
	r := inBubble(t, m, options, func(r *Ring) {
		for n := range 3000 {
			offer(r, n, true)
			synctest.Wait()
		}
	})
	if r.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
}

// Without a place, values are dropped, and the ring begins once there is one.
func TestRing_OpensLater(t *testing.T) {
	m := disk(t)
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		r := start(options(), func() (storage, error) {
			if attempts++; attempts < 3 {
				return nil, errInUse
			}
			return m, nil
		})
		for n := range 30 {
			offer(r, n, false)
			<-time.After(time.Second)
		}
		r.Close()
	})
	checks, _ := m.read()
	if len(checks) == 0 || checks[0].Seq == 0 || checks[0].Lost != checks[0].Seq {
		t.Errorf("stored %d checks, the first one: %+v", len(checks), checks)
	}
}

// Usage of pods is measured every ten seconds, and every second near a threshold.
func TestRing_MeasuresByDistance(t *testing.T) {
	m := disk(t)
	var times []time.Duration
	o := options()
	inBubble(t, m, func() Options {
		begun := time.Now()
		o.Header.Started = begun
		o.Usage = func() *recording.Usage {
			times = append(times, time.Since(begun))
			return &recording.Usage{At: time.Now()}
		}
		return o
	}, func(r *Ring) {
		for i := range 80 {
			e := r.Next()
			e.Check.Snapshot.At = time.Now()
			e.Near = i >= 60 // the last 5 s
			r.Commit(time.Now(), false)
			<-time.After(250 * time.Millisecond)
		}
	})
	want := []time.Duration{0, 9 * time.Second, 15 * time.Second, 16 * time.Second, 17 * time.Second, 18 * time.Second, 19 * time.Second}
	if !slices.Equal(times, want) {
		t.Errorf("measured at %v, want %v", times, want)
	}
}

func TestRing_ProducerDoesNotAllocate(t *testing.T) {
	m := disk(t)
	m.hang = make(chan struct{})
	defer close(m.hang)
	r := start(options(), func() (storage, error) { return m, nil })
	now := time.Now()
	if n := testing.AllocsPerRun(2*queueLength, func() { // also with a full queue
		if e := r.Next(); e != nil {
			e.Check.Snapshot.At = now
			r.Commit(now, false)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStep_IgnoresJitter(t *testing.T) {
	for _, tc := range []struct{ byTimeOfDay, elapsed, want time.Duration }{
		{time.Hour, time.Hour, 0}, {time.Hour + time.Millisecond, time.Hour, 0}, {time.Hour, time.Minute, 59 * time.Minute}, {-time.Hour, time.Minute, -61 * time.Minute},
	} {
		if got := step(tc.byTimeOfDay, tc.elapsed); got != tc.want {
			t.Errorf("%s by the time of day, %s elapsed: %s", tc.byTimeOfDay, tc.elapsed, got)
		}
	}
}
