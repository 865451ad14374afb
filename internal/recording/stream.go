package recording

// Stream decodes a recording while it is written, part by part, with a bounded amount of memory. It decodes
// the observations of checks, usages and decisions. Pods have neither containers nor volumes, and checks neither
// acts nor states: those can take a hundred times the memory of their frames.
type Stream struct {
	reader Reader
	data   []byte // not decoded yet
	at     int    // the part of data before it is decoded
}

// streamWork bounds the bytes of which checksums are computed, each time when more has arrived behind an invalid frame.
const streamWork = 8 * maxFrame

// NewStream returns a stream without data.
func NewStream() *Stream {
	s := &Stream{}
	s.reader.decoder.short = true
	return s
}

// Damage returns the damage of the part that was read, without its place.
func (s *Stream) Damage() Damage {
	d := s.reader.damage
	d.First = 0
	return d
}

// Add adds the bytes that follow. The stream copies them.
func (s *Stream) Add(data []byte) {
	s.drop(0)
	s.data = append(s.data, data...)
}

// End ends the segment. If bytes are left, its last frame is incomplete. The next segment may follow.
func (s *Stream) End() {
	if left := len(s.data) - s.at; left > 0 {
		s.reader.damage.Bytes += int64(left)
		s.reader.damage.Tail++
	}
	s.data, s.at = s.data[:0], 0
	s.reader.decoder.lose()
}

// Next returns the next entry, without Frame and Offset, and nil if it is not complete yet.
func (s *Stream) Next() *Entry {
	for {
		f := frames{data: s.data[s.at:], work: streamWork}
		frame, skipped := f.next()
		if frame == nil {
			s.drop(max(len(s.data)-s.at-maxFrame, 0)) // no frame that begins there can still be completed
			return nil
		}
		if skipped > 0 {
			s.reader.lose(frame, skipped)
		}
		e := s.reader.decode(frame)
		if s.at += f.at; e != nil {
			e.Frame = nil
			return e
		}
	}
}

// drop drops the first bytes that are not decoded, and moves the rest to the beginning of its memory.
func (s *Stream) drop(unreadable int) {
	s.reader.damage.Bytes += int64(unreadable)
	n := copy(s.data, s.data[s.at+unreadable:])
	s.data, s.at = s.data[:n], 0
}
