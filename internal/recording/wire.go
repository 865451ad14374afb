package recording

import (
	"encoding/binary"
	"strings"
)

// maxText bounds a text within a frame, in bytes. Messages and causes are shorter.
const maxText = 32 << 10

// output appends values to a frame.
type output struct {
	b   []byte
	cut bool // a value was larger than its bound
}

func (o *output) byte(v byte) { o.b = append(o.b, v) }

func (o *output) uvarint(v uint64) { o.b = binary.AppendUvarint(o.b, v) }

func (o *output) varint(v int64) { o.b = binary.AppendVarint(o.b, v) }

// text appends a text, cut at maxText.
func (o *output) text(s string) {
	if len(s) > maxText {
		s, o.cut = strings.ToValidUTF8(s[:maxText], ""), true
	}
	o.uvarint(uint64(len(s)))
	o.b = append(o.b, s...)
}

// bits appends up to eight facts in one byte.
func (o *output) bits(facts ...bool) {
	var v byte
	for i, is := range facts {
		if is {
			v |= 1 << i
		}
	}
	o.byte(v)
}

// count appends the number of items that follow, at most the limit, and returns it.
func (o *output) count(n, limit int) int {
	if n > limit {
		n, o.cut = limit, true
	}
	o.uvarint(uint64(n))
	return n
}

// input consumes the values of a payload. After a fault every value is zero.
type input struct {
	b   []byte
	bad bool
}

func (in *input) fail() {
	in.b, in.bad = nil, true
}

func (in *input) byte() byte {
	if len(in.b) == 0 {
		in.fail()
		return 0
	}
	v := in.b[0]
	in.b = in.b[1:]
	return v
}

func (in *input) uvarint() uint64 {
	v, n := binary.Uvarint(in.b)
	if n <= 0 {
		in.fail()
		return 0
	}
	in.b = in.b[n:]
	return v
}

func (in *input) varint() int64 {
	v, n := binary.Varint(in.b)
	if n <= 0 {
		in.fail()
		return 0
	}
	in.b = in.b[n:]
	return v
}

func (in *input) text() string {
	n := in.uvarint()
	if n > maxText || n > uint64(len(in.b)) {
		in.fail()
		return ""
	}
	s := string(in.b[:n])
	in.b = in.b[n:]
	return s
}

// count returns the number of items that follow. Each has at least one byte.
func (in *input) count(limit int) int {
	n := in.uvarint()
	if n > uint64(limit) || n > uint64(len(in.b)) {
		in.fail()
		return 0
	}
	return int(n)
}

// below returns a number that must be less than the limit.
func (in *input) below(limit int) int {
	n := in.uvarint()
	if n >= uint64(limit) {
		in.fail()
		return 0
	}
	return int(n)
}

// bit reports whether a fact of [output.bits] is true.
func bit(v byte, i int) bool { return v&(1<<i) != 0 }
