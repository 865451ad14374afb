package ring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Options configure a [Ring].
type Options struct {
	Dir  string
	Size int64 // of all segments; at least MinSize
	// Queue is the number of values that wait for the disk; 0: enough for the checks of a few seconds.
	Queue int
	// Header describes the run. Its start must have a monotonic reading. State, if not nil, is encoded
	// as its state before the first check.
	Header recording.Header
	State  any
	// Usage, if set, measures the pods. It returns nil if there is nothing to record. The writing
	// goroutine calls it: every ten seconds, and every second while checks are Near.
	Usage func() *recording.Usage
	// Capacity, if set, returns the capacity and allocatable resources of the node, nil if they are
	// not known yet.
	Capacity func() (capacity, allocatable map[string]string)
	// Failed receives the first error of a series, and nil once a value is stored again. The
	// writing goroutine calls it.
	Failed func(error)
}

// Entry is a value to record: a check, or a line of the decision log.
type Entry struct {
	Check recording.Check
	// State, if not nil, is encoded as the state of the check, which becomes a key frame.
	State any
	// Near: the check is near a threshold. Usage of pods is due every second.
	Near bool
	// Config, if not nil, is the configuration from this check on, as in the header. A segment begins
	// with it.
	Config json.RawMessage
	// Decision, if not nil, is a line of the decision log at the time At. There is no check then.
	Decision any
	At       time.Time
}

// queueLength is the usual number of values that wait for the disk: a few seconds of checks at their
// shortest interval. Each takes about 1.5 KB.
const queueLength = 512

// maxWaitingParts bounds the measurements that wait for the disk, in pods, containers and volumes: about
// 6 MB, and one measurement more. A node of 110 pods with two containers each has 32 measurements there.
const maxWaitingParts = 40_000

// wakeInterval is the minimum time between two wakeups of the writing goroutine by values that are
// not urgent.
const wakeInterval = 250 * time.Millisecond

// Intervals between measurements of pods, far from a threshold and near one. A tenth less is
// enough, since checks are not exactly periodic.
const (
	farInterval  = 9 * time.Second
	nearInterval = 900 * time.Millisecond
)

// Ring records the values of one goroutine: only that one may call Next, Commit and Skip. The other
// methods are safe for concurrent use.
type Ring struct {
	options Options
	slots   []Entry
	// head is the number of values taken from the queue, and tail that of values added to it.
	head, tail atomic.Uint64
	parts      atomic.Int64 // of the measurements that wait in the queue
	wake       chan struct{}
	stop, done chan struct{}

	lost  uint64    // since the last committed check; of the caller
	woken time.Time // when the writer was last woken; of the caller

	dropped atomic.Int64
	bytes   atomic.Int64

	writer    *writer
	failing   bool
	unwritten uint64 // since the last stored check; of the writer
	measured  time.Time
	near      bool
}

// Start starts to record. It opens the directory beside the caller: a disk that hangs delays
// nothing.
func Start(o Options) *Ring {
	return start(o, func() (storage, error) {
		d, err := openDirectory(o.Dir)
		if err != nil {
			return nil, fmt.Errorf("record to %s: %w", o.Dir, err)
		}
		return d, nil
	})
}

func start(o Options, open func() (storage, error)) *Ring {
	if o.State != nil {
		o.Header.State, _ = json.Marshal(o.State) // without it, a replay begins with the first key frame
	}
	r := &Ring{options: o, slots: make([]Entry, cmp.Or(o.Queue, queueLength)), wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go r.run(open)
	return r
}

// Next returns the next free slot of the queue, to be filled and committed. It returns nil if the
// queue is full; the value is then counted as lost. It neither blocks nor allocates.
func (r *Ring) Next() *Entry {
	tail := r.tail.Load()
	if tail-r.head.Load() >= uint64(len(r.slots)) {
		r.Skip()
		return nil
	}
	e := r.slot(tail)
	*e = Entry{}
	return e
}

// slot returns the slot of the n-th value.
func (r *Ring) slot(n uint64) *Entry { return &r.slots[n%uint64(len(r.slots))] }

// Skip counts a value as lost.
func (r *Ring) Skip() {
	r.lost++
	r.dropped.Add(1)
}

// MeasurementsWait reports whether so many measurements of pods wait for the disk that no further one
// may be added.
func (r *Ring) MeasurementsWait() bool { return r.parts.Load() >= maxWaitingParts }

// parts returns the number of measured pods, containers and volumes.
func (e *Entry) parts() (n int64) {
	if e.Check.Act == nil {
		return 0
	}
	for _, measured := range e.Check.Act.Measured {
		n += int64(len(measured))
		for i := range measured {
			if u := measured[i].Usage; u != nil {
				n += int64(len(u.Containers) + len(u.Volumes))
			}
		}
	}
	return n
}

// Commit adds the slot that Next returned. Values that are not urgent may wait for later ones. It
// neither blocks nor allocates.
func (r *Ring) Commit(now time.Time, urgent bool) {
	e := r.slot(r.tail.Load())
	if e.Decision == nil {
		e.Check.Lost, r.lost = r.lost, 0
	}
	r.parts.Add(e.parts())
	r.tail.Add(1)
	if !urgent && now.Sub(r.woken) < wakeInterval {
		return
	}
	r.woken = now
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Dropped returns the number of values that were not recorded since the start.
func (r *Ring) Dropped() int64 { return r.dropped.Load() }

// Bytes returns the size of all segments, reserved space included, as of the begin of the present
// segment.
func (r *Ring) Bytes() int64 { return r.bytes.Load() }

// closeWait bounds the wait for a disk that hangs.
const closeWait = 2 * time.Second

// Close records the values in the queue and stops. The caller of Next must have stopped. It reports
// whether the writing goroutine has ended: a disk that hangs is not waited for.
func (r *Ring) Close() (ended bool) {
	close(r.stop)
	select {
	case <-r.done:
		return true
	case <-time.After(closeWait):
		return false
	}
}

func (r *Ring) run(open func() (storage, error)) {
	defer close(r.done)
	for r.writer == nil {
		s, err := open()
		if err == nil {
			defer s.close()
			r.writer = newWriter(s, recording.NewEncoder(r.options.Header), r.options.Size)
			break
		}
		r.report(err)
		if r.discard(time.Now().Add(retryPause)) {
			return
		}
	}
	for {
		select {
		case <-r.wake:
			r.drain()
			r.measure()
		case <-r.stop:
			r.drain()
			r.writer.end()
			return
		}
	}
}

// discard drops all values until the given time, as there is no place for them. It reports whether
// the ring was closed.
func (r *Ring) discard(until time.Time) (stopped bool) {
	for {
		for r.head.Load() < r.tail.Load() {
			if e := r.slot(r.head.Load()); e.Config != nil {
				r.options.Header.Config = e.Config
			}
			r.drop()
			r.release()
		}
		select {
		case <-r.wake:
			if time.Now().After(until) {
				return false
			}
		case <-r.stop:
			return true
		}
	}
}

// drop counts a value of the queue that is not stored.
func (r *Ring) drop() {
	r.unwritten++
	r.dropped.Add(1)
}

// drain stores the values in the queue.
func (r *Ring) drain() {
	for r.head.Load() < r.tail.Load() {
		e := r.slot(r.head.Load())
		if e.Config != nil {
			r.writer.reconfigure(e.Config)
		}
		if err := r.store(e); err != nil {
			r.drop()
			r.report(err)
		} else {
			r.report(nil)
		}
		r.release()
	}
}

// release frees the oldest slot.
func (r *Ring) release() {
	e := r.slot(r.head.Load())
	r.parts.Add(-e.parts())
	e.Check.Act, e.State, e.Decision, e.Config = nil, nil, nil, nil // the rest is overwritten
	r.head.Add(1)
}

// store writes one value.
func (r *Ring) store(e *Entry) (err error) {
	if e.Decision != nil {
		d := recording.Decision{At: e.At, Clock: r.clock(e.At)}
		if d.Line, err = encodeLine(e.Decision); err != nil {
			return fmt.Errorf("encode a decision: %w", err)
		}
		return r.add(func(b []byte) ([]byte, bool) { return r.writer.encoder.Decision(b, &d) })
	}
	c := &e.Check
	c.Clock = r.clock(c.Snapshot.At)
	c.Lost += r.unwritten
	if e.State != nil {
		if c.State, err = json.Marshal(e.State); err != nil {
			return fmt.Errorf("encode the state of the decisions: %w", err)
		}
	}
	r.near = e.Near
	if err = r.add(func(b []byte) ([]byte, bool) { return r.writer.encoder.Check(b, c) }); err == nil {
		r.unwritten = 0
	}
	return err
}

// encodeLine encodes a decision as in the decision log: < is a character there, and no escape of six.
func encodeLine(decision any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(decision); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// add writes a frame, and notes the size of the ring when a segment begins.
func (r *Ring) add(encode func(b []byte) ([]byte, bool)) error {
	w := r.writer
	if r.options.Capacity != nil && w.current == nil {
		w.encoder.SetCapacity(r.options.Capacity())
	}
	number := w.number
	err := w.add(time.Now(), encode)
	if w.number != number || err != nil && !errors.Is(err, errPaused) {
		r.bytes.Store(w.bytes())
	}
	return err
}

// measure stores the usage of the pods if it is due.
func (r *Ring) measure() {
	interval := farInterval
	if r.near {
		interval = nearInterval
	}
	if now := time.Now(); r.options.Usage == nil || now.Sub(r.measured) < interval {
		return
	}
	r.measured = time.Now()
	u := r.options.Usage()
	if u == nil {
		return
	}
	u.Clock = r.clock(u.At)
	if err := r.add(func(b []byte) ([]byte, bool) { return r.writer.encoder.Usage(b, u) }); err != nil {
		r.dropped.Add(1)
		r.report(err)
	}
}

// report passes the first error of a series to the owner, and nil after it. A value that is too large is
// no fault of the disk.
func (r *Ring) report(err error) {
	if errors.Is(err, errPaused) || errors.Is(err, errTooLarge) || (err != nil) == r.failing {
		return
	}
	r.failing = err != nil
	if r.options.Failed != nil {
		r.options.Failed(err)
	}
}

// clock returns by how much the time of day was set since the start of the run.
func (r *Ring) clock(t time.Time) time.Duration {
	return step(t.Round(0).Sub(r.options.Header.Started.Round(0)), t.Sub(r.options.Header.Started))
}

// step returns the difference of a duration by the time of day and one by a clock that is never
// set. The two are not read at exactly the same time.
func step(byTimeOfDay, elapsed time.Duration) time.Duration {
	return (byTimeOfDay - elapsed).Round(10 * time.Millisecond)
}
