package recording

import (
	"errors"
	"fmt"
)

// ErrNoChecks is the error for a time in which a recording has no check.
var ErrNoChecks = errors.New("no check is recorded in this time")

// ErrNoRecording is the error for data without a readable frame.
var ErrNoRecording = errors.New("no frame of a recording is readable: is it a file of `plimsoll recording export`?")

// Entry is a decoded frame. Exactly one of Header, Check, Usage and Decision is set, or none for a
// frame that only declares a pod.
type Entry struct {
	Header   *Header
	Check    *Check
	Usage    *Usage
	Decision *Decision
	// Frame is the encoded form. It is a part of the recording, and begins at Offset.
	Frame  []byte
	Offset int64
	// IsPod: the frame declares a pod for later frames of the segment.
	IsPod bool
}

// Damage is the unreadable part of a recording.
type Damage struct {
	Bytes       int64 // without a valid frame
	Places      int   // in the middle of a segment
	Tail        int   // segments with an incomplete last frame, as after a kill
	Undecoded   int   // valid frames that depend on a lost one, or that this version can not decode
	LaterFormat int   // segments of a later format
	First       int64 // offset of the first part that is missing, other than an incomplete last frame
}

// Any reports whether a part is missing other than an incomplete last frame.
func (d *Damage) Any() bool { return d.Places > 0 || d.Undecoded > 0 || d.LaterFormat > 0 }

func (d *Damage) String() string {
	text := fmt.Sprintf("%d unreadable bytes in %d places, %d incomplete last frames, %d frames without their base, %d segments of a later format",
		d.Bytes, d.Places, d.Tail, d.Undecoded, d.LaterFormat)
	if d.Any() {
		text += fmt.Sprintf(", the first at byte %d", d.First)
	}
	return text
}

// Err returns a [MalformedError] of a file with this damage, and nil without any.
func (d *Damage) Err(file string) error {
	if !d.Any() {
		return nil
	}
	return &MalformedError{file, d.First, errDamaged}
}

var errDamaged = errors.New("a part of the recording is damaged, or of a later version")

// MalformedError is the error of a file with a part that cannot be read.
type MalformedError struct {
	File   string
	Offset int64 // of the first such part, in bytes
	Cause  error
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("read %s: at byte %d: %v", e.File, e.Offset, e.Cause)
}

func (e *MalformedError) Unwrap() error { return e.Cause }

// Reader decodes a recording: one segment or several. It reads to the last valid frame, whatever
// lies before it.
type Reader struct {
	frames  frames
	decoder decoder
	damage  Damage
}

// NewReader returns a reader of a recording in memory. The entries refer to data.
func NewReader(data []byte) *Reader { return &Reader{frames: newFrames(data)} }

// Damage returns the damage of the part that was read.
func (r *Reader) Damage() Damage { return r.damage }

// Next returns the next entry that can be decoded, and nil at the end.
func (r *Reader) Next() *Entry {
	for {
		frame, skipped := r.frames.next()
		if skipped > 0 {
			r.lose(frame, skipped)
		}
		if frame == nil {
			return nil
		}
		if e := r.decode(frame); e != nil {
			e.Offset = r.offset(frame)
			return e
		}
	}
}

// offset returns that of the present frame.
func (r *Reader) offset(frame []byte) int64 { return int64(r.frames.at - len(frame)) }

// noteFirst notes the offset of a part that is missing, before it is counted.
func (r *Reader) noteFirst(offset int64) {
	if !r.damage.Any() {
		r.damage.First = offset
	}
}

// lose notes bytes without a frame. A segment that ends with them was not closed: its writer was
// killed. The next segment begins behind.
func (r *Reader) lose(next []byte, skipped int) {
	r.damage.Bytes += int64(skipped)
	if next == nil || kind(next[headSize]) == kindHeader {
		r.damage.Tail++
	} else {
		r.noteFirst(r.offset(next) - int64(skipped))
		r.damage.Places++
	}
	r.decoder.lose()
}

// decode returns the entry of a frame, or nil if it can not be decoded.
func (r *Reader) decode(frame []byte) *Entry {
	e, d := &Entry{Frame: frame}, &r.decoder
	k, payload := kind(frame[headSize]), frame[headSize+1:]
	if k == kindHeader {
		e.Header = d.begin(payload)
		switch {
		case e.Header == nil:
			return r.undecoded(frame)
		case d.header == nil:
			r.noteFirst(r.offset(frame))
			r.damage.LaterFormat++
			return nil
		}
		return e
	}
	if d.header == nil { // of a later format, or lost
		return r.undecoded(frame)
	}
	ok := false
	switch k {
	case kindPod:
		ok = d.declare(payload)
		e.IsPod = ok
	case kindCheck:
		e.Check = d.decodeCheck(payload)
		ok = e.Check != nil
	case kindUsage:
		e.Usage = d.decodeUsage(payload)
		ok = e.Usage != nil
	case kindDecision:
		e.Decision = d.decodeDecision(payload)
		ok = e.Decision != nil
	}
	if !ok {
		if k == kindCheck {
			d.haveCheck = false
		}
		return r.undecoded(frame)
	}
	return e
}

// undecoded counts a frame that can not be decoded, and returns no entry.
func (r *Reader) undecoded(frame []byte) *Entry {
	r.noteFirst(r.offset(frame))
	r.damage.Undecoded++
	return nil
}
