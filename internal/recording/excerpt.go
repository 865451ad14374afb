package recording

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Time returns the time of the entry by the time of day; zero for a header and a pod.
func (e *Entry) Time() time.Time {
	switch {
	case e.Check != nil:
		return e.Check.At()
	case e.Usage != nil:
		return e.Usage.At.Add(e.Usage.Clock)
	case e.Decision != nil:
		return e.Decision.At.Add(e.Decision.Clock)
	}
	return time.Time{}
}

// Excerpt writes the frames of a recording between two times of day, as they are. It begins with the
// last state of the decisions before, at most about a minute earlier, so that a replay of it is exact.
// A zero begin or end is that of the recording. It returns the number of checks, and the first error
// of w.
func Excerpt(data []byte, begin, end time.Time, w io.Writer) (checks int, err error) {
	x := excerpt{w: w}
	r := NewReader(data)
	for e := r.Next(); e != nil && x.err == nil; e = r.Next() {
		t := e.Time()
		switch {
		case e.Header != nil:
			x.segment(e)
		case e.IsPod:
			x.pod(e.Frame)
		case !end.IsZero() && t.After(end):
		default:
			x.add(e, begin.IsZero() || !t.Before(begin))
		}
	}
	return x.checks, x.err
}

// excerpt is the state of an excerpt within a segment.
type excerpt struct {
	w      io.Writer
	err    error
	checks int

	header  *Entry
	pods    [][]byte
	pending []part // since the last state, while nothing is written
	passed  bool   // a check of the segment is left out
	begun   bool
}

// part is the encoded form of an entry. Decoded ones would take many times as much memory.
type part struct {
	frame   []byte
	isCheck bool
}

func (x *excerpt) segment(header *Entry) {
	*x = excerpt{w: x.w, err: x.err, checks: x.checks, header: header}
}

func (x *excerpt) pod(frame []byte) {
	if x.begun {
		x.write(frame)
		return
	}
	x.pods = append(x.pods, frame)
}

// add adds a frame of the excerpt, or one that may be needed before it.
func (x *excerpt) add(e *Entry, within bool) {
	p := part{e.Frame, e.Check != nil}
	if x.begun {
		x.put(p)
		return
	}
	if p.isCheck && e.Check.State != nil && !within { // the state is that behind the check
		for _, before := range x.pending {
			x.passed = x.passed || before.isCheck
		}
		x.pending = x.pending[:0]
	}
	if x.pending = append(x.pending, p); !within {
		return
	}
	x.begun = true
	x.writeHeader()
	for _, frame := range x.pods {
		x.write(frame)
	}
	for _, before := range x.pending {
		x.put(before)
	}
	x.pods, x.pending = nil, nil
}

// writeHeader writes the header. The state before the run is only that before its first check.
func (x *excerpt) writeHeader() {
	h := *x.header.Header
	if !x.passed || h.State == nil {
		x.write(x.header.Frame)
		return
	}
	h.State = nil
	text, err := json.Marshal(&h)
	if err != nil {
		x.err = fmt.Errorf("encode the header of an excerpt: %w", err)
		return
	}
	frame, _ := seal(append(begin(nil, kindHeader), text...), 0)
	x.write(frame)
}

func (x *excerpt) put(p part) {
	if p.isCheck {
		x.checks++
	}
	x.write(p.frame)
}

func (x *excerpt) write(frame []byte) {
	if x.err != nil {
		return
	}
	if _, err := x.w.Write(frame); err != nil {
		x.err = fmt.Errorf("write an excerpt: %w", err)
	}
}
