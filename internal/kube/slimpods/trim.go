package slimpods

import "encoding/binary"

// A message says which fields of a protobuf message are kept, by their numbers. All
// others are dropped.
type message [45]*rule

// A rule says what is kept of a field. The zero rule keeps all of it.
type rule struct {
	inner *message // of a field that is a message: what is kept of it; nil: all
	// class puts one part of a repeated field into classes. Parts of no class are
	// dropped. The first part of each class is kept, and others while fewer than most
	// are. Nil: all parts are kept.
	class func(part []byte) class
	most  int
}

// A class is a set of bits.
type class uint8

// every is the class of every part.
const every class = 1 << 7

// A tally is what was kept of one repeated field.
type tally struct {
	classes class
	parts   uint16
}

// trim appends the fields of in that are kept to out. It returns false if in is
// malformed in a way that every decoder refuses.
func (m *message) trim(out, in []byte) (kept []byte, ok bool) {
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
		case f.wire != wireBytes: // a number; or what the decoder will refuse
			out = append(out, whole...)
		case !r.keeps(&tallies[f.number], whole[f.content:]):
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

// nest appends a message within another one: its length, then what is kept of it.
func (m *message) nest(out, in []byte) (kept []byte, ok bool) {
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

// keeps reports whether the next part of a repeated field is kept, and counts it.
func (r *rule) keeps(t *tally, part []byte) bool {
	if r.class == nil {
		return true
	}
	c := r.class(part)
	if c == 0 || c&^t.classes == 0 && int(t.parts) >= r.most {
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
	wireStart   = 3 // of a group, which nothing in Kubernetes has
	wireEnd     = 4
	wireFixed32 = 5
)

// A field is the first one of a message.
type field struct {
	number  int32
	wire    int
	value   uint64 // of a varint
	head    int    // bytes of the tag
	content int    // where the content begins; of wireBytes only
	end     int
}

// next finds the end of the first field. It accepts all that generated decoders do.
func next(in []byte) (f field, ok bool) {
	tag, at := varint(in)
	if at == 0 {
		return f, false
	}
	f.number, f.wire, f.head = int32(tag>>3), int(tag&7), at // cut to 32 bits as those do
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

// varint reads a number of up to ten bytes, of which bits beyond 64 do not count.
// n is 0 if there is none.
func varint(in []byte) (value uint64, n int) {
	for i := 0; i < len(in) && i < binary.MaxVarintLen64; i++ {
		value |= uint64(in[i]&0x7f) << (7 * i)
		if in[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// take splits the first field off a message, and returns it with its content. It
// returns false at the end of the message and where it is malformed.
func take(in *[]byte) (f field, content []byte, ok bool) {
	if f, ok = next(*in); !ok {
		return f, nil, false
	}
	content, *in = (*in)[f.content:f.end], (*in)[f.end:]
	return f, content, true
}
