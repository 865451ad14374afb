package ring

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Sizes of a ring.
const (
	// MinSize is the minimum size of a ring, and DefaultSize the usual one.
	MinSize     = 16 << 20
	DefaultSize = 64 << 20
	// parts is the number of segments of full size. Each time one of them is removed at once.
	parts = 16
	// maxSegments bounds the number of segments: a run that ends soon leaves a small one.
	maxSegments = 1024
	alignment   = 64 << 10
)

// minSegmentTime is the minimum time of a segment that ends before it is full, since it has many pods.
// Pods that are created all the time must not displace the history.
const minSegmentTime = 10 * time.Minute

// retryPause is the time between attempts to begin a segment after a failed write.
const retryPause = 10 * time.Second

// writer appends frames to segments. One goroutine owns it.
type writer struct {
	storage storage
	encoder *recording.Encoder
	limit   int64 // of all segments
	segment int64 // of one

	current file // nil: none
	number  uint64
	begun   time.Time // of the present segment
	size    int64
	buf     []byte
	retryAt time.Time
}

func newWriter(s storage, e *recording.Encoder, limit int64) *writer {
	limit = max(limit, MinSize)
	return &writer{storage: s, encoder: e, limit: limit, segment: limit / parts / alignment * alignment, buf: make([]byte, 0, 64<<10)}
}

// errPaused is the error of a write that is not tried, shortly after a failed one.
var errPaused = errors.New("the last write failed")

// errTooLarge is the error of a value that fits into no frame.
var errTooLarge = errors.New("the value is too large for a frame")

// add appends what encode appends to the present segment. If that is full, it begins the next one,
// in which encode appends absolute frames. It returns an error if the frame is not stored.
func (w *writer) add(now time.Time, encode func(b []byte) ([]byte, bool)) error {
	if w.encoder.IsFull() && now.Sub(w.begun) >= minSegmentTime {
		w.end()
	}
	for range 2 {
		b, begins := w.buf[:0], w.current == nil
		if begins {
			var err error
			if b, err = w.begin(now, b); err != nil {
				return err
			}
		}
		b, ok := encode(b)
		w.buf = b[:0]
		if w.size+int64(len(b)) <= w.segment {
			if err := w.write(now, b); err != nil {
				return err
			}
			if !ok {
				return errTooLarge
			}
			return nil
		}
		if begins {
			w.abandon(now)
			return errTooLarge
		}
		w.end()
	}
	return errTooLarge
}

// begin begins a segment and appends its header to b.
func (w *writer) begin(now time.Time, b []byte) ([]byte, error) {
	if now.Before(w.retryAt) {
		return b, errPaused
	}
	w.retryAt = now.Add(retryPause)
	segments, err := w.storage.list()
	if err != nil {
		return b, err
	}
	number := w.number
	if n := len(segments); n > 0 {
		number = max(number, segments[n-1].Number)
	}
	number++
	if err := w.makeRoom(segments); err != nil {
		return b, err
	}
	f, err := w.storage.create(number, w.segment)
	if err != nil {
		return b, err
	}
	w.current, w.number, w.begun, w.size = f, number, now, 0
	w.encoder.Reset(number)
	if b, err = w.encoder.Header(b); err == nil && int64(len(b)) > w.segment/2 {
		err = fmt.Errorf("begin a segment: its header has %d bytes, at most %d with this --recording-size", len(b), w.segment/2)
	}
	if err != nil {
		w.abandon(now)
		return b, err
	}
	w.encoder.Limit(int(w.segment) - len(b)) // so that each value fits into a segment of its own
	w.retryAt = time.Time{}
	return b, nil
}

// reconfigure ends the segment. The headers of later ones have another configuration.
func (w *writer) reconfigure(config json.RawMessage) {
	w.end()
	w.encoder.SetConfig(config)
}

// makeRoom removes the oldest segments until a new one is within the bound. It returns an error if
// one can not be removed.
func (w *writer) makeRoom(segments []Segment) error {
	var total int64
	for _, s := range segments {
		total += s.bytes
	}
	for len(segments) > 0 && (total+w.segment > w.limit || len(segments) >= maxSegments) {
		if err := w.storage.remove(segments[0].Number); err != nil {
			return fmt.Errorf("make room for a new segment: %w", err)
		}
		total -= segments[0].bytes
		segments = segments[1:]
	}
	return nil
}

// write appends frames to the segment. After an error the segment ends with the last frame that
// was written whole.
func (w *writer) write(now time.Time, b []byte) error {
	n, err := w.current.Write(b)
	if err == nil && n < len(b) {
		err = errShort
	}
	if err != nil {
		err = fmt.Errorf("write to a segment: %w", err)
		if w.size == 0 {
			w.abandon(now)
			return err
		}
		_ = w.current.Truncate(w.size) // a torn frame is not read, too
		w.close()
		w.retryAt = now.Add(retryPause)
		return err
	}
	if w.size == 0 {
		w.encoder.DropState() // the state before the run is stored
	}
	w.size += int64(n)
	return nil
}

var errShort = errors.New("not all bytes were written")

// end ends the segment and releases the rest of its reserved space.
func (w *writer) end() {
	if w.current == nil {
		return
	}
	_ = w.current.Truncate(w.size)
	w.close()
}

// abandon removes a segment without frames.
func (w *writer) abandon(now time.Time) {
	w.close()
	_ = w.storage.remove(w.number)
	w.retryAt = now.Add(retryPause)
}

func (w *writer) close() {
	_ = w.current.Close()
	w.current = nil
}

// bytes returns the size of all segments, reserved space included.
func (w *writer) bytes() (total int64) {
	segments, err := w.storage.list()
	if err != nil {
		return 0
	}
	for _, s := range segments {
		total += s.bytes
	}
	return total
}
