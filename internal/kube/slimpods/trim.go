package slimpods

import "encoding/binary"

// message is the set of retained fields of a protobuf message, by their numbers. All others are
// dropped.
type message [45]*rule

// rule describes the retained part of a field. The zero rule retains all of it.
type rule struct {
	inner *message // rules of a nested message; nil: all of it is retained
	// class puts one part of a repeated field into classes. Parts of no class are dropped. The
	// first part of each class is retained, and others while fewer than most are. Nil: all parts
	// are retained.
	class func(part []byte) class
	limit int
}

// class is a set of bits.
type class uint8

// every is the class of every part.
const every class = 1 << 7

// tally counts the retained parts of one repeated field.
type tally struct {
	classes class
	parts   uint16
}

// trim appends the retained fields of in to out. It returns false if in is malformed in a way that
// every decoder refuses.
func (m *message) trim(out, in []byte) (trimmed []byte, ok bool) {
	var tallies [len(message{})]tally
	for len(in) > 0 {
		f, ok := next(in)
		if !ok {
			return nil, false
		}
		whole := in[:f.end]
		in = in[f.end:]
		if f.number <= 0 || int(f.number) >= len(m) || m[f.number] == nil {
			continue
		}
		switch r := m[f.number]; {
		case f.wire != wireBytes: // a number, or a field that the decoder will refuse
			out = append(out, whole...)
		case !r.retains(&tallies[f.number], whole[f.content:]):
		case r.inner == nil:
			out = append(out, whole...)
		default:
			out = append(out, whole[:f.head]...)
			if out, ok = r.inner.nest(out, whole[f.content:]); !ok {
				return nil, false
			}
		}
	}
	return out, true
}

// nest appends a nested message: its length, then its retained fields.
func (m *message) nest(out, in []byte) (trimmed []byte, ok bool) {
	at := len(out)
	out = binary.AppendUvarint(out, uint64(len(in)))
	from := len(out)
	if out, ok = m.trim(out, in); !ok {
		return nil, false
	}
	size := len(out) - from
	if to := at + binary.PutUvarint(out[at:from:from], uint64(size)); to < from {
		copy(out[to:], out[from:])
		out = out[:to+size]
	}
	return out, true
}

// retains reports whether the next part of a repeated field is retained, and counts it.
func (r *rule) retains(t *tally, part []byte) bool {
	if r.class == nil {
		return true
	}
	c := r.class(part)
	if c == 0 || c&^t.classes == 0 && int(t.parts) >= r.limit {
		return false
	}
	t.classes |= c
	t.parts++
	return true
}

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireStart   = 3 // of a group, which Kubernetes does not use
	wireEnd     = 4
	wireFixed32 = 5
)

// field is the first field of a message.
type field struct {
	number  int32
	wire    int
	value   uint64 // of a varint
	head    int    // bytes of the tag
	content int    // offset of the content; of wireBytes only
	end     int
}

// next finds the end of the first field. It accepts everything that generated decoders accept.
func next(in []byte) (f field, ok bool) {
	tag, at := varint(in)
	if at == 0 {
		return f, false
	}
	f.number, f.wire, f.head = int32(tag>>3), int(tag&7), at // cut to 32 bits as in those
	for wire, depth := f.wire, 0; ; {
		n := 1
		switch wire {
		case wireVarint:
			f.value, n = varint(in[at:])
			at += n
		case wireFixed64:
			at += 8
		case wireFixed32:
			at += 4
		case wireBytes:
			var length uint64
			length, n = varint(in[at:])
			if length > uint64(len(in)) {
				return f, false
			}
			f.content = at + n
			at = f.content + int(length)
		case wireStart:
			depth++
		case wireEnd:
			depth--
		default:
			return f, false
		}
		if n == 0 || depth < 0 || at > len(in) {
			return f, false
		}
		if depth == 0 {
			f.end = at
			return f, true
		}
		if tag, n = varint(in[at:]); n == 0 {
			return f, false
		}
		wire, at = int(tag&7), at+n
	}
}

// varint reads a number of up to ten bytes and ignores bits beyond 64. n is 0 if there is none.
func varint(in []byte) (value uint64, n int) {
	for i := 0; i < len(in) && i < binary.MaxVarintLen64; i++ {
		value |= uint64(in[i]&0x7f) << (7 * i)
		if in[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// take splits the first field off a message, and returns it with its content. It returns false at
// the end of the message and at malformed bytes.
func take(in *[]byte) (f field, content []byte, ok bool) {
	if f, ok = next(*in); !ok {
		return f, nil, false
	}
	content, *in = (*in)[f.content:f.end], (*in)[f.end:]
	return f, content, true
}
