package reflector

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// Field numbers of Kubernetes' protobuf messages that are read here. A response is a
// [runtime.Unknown] with the list as its raw bytes, and every list has its metadata and its items
// under the same numbers.
const (
	unknownType  = 1
	unknownRaw   = 2
	listMetadata = 1
	listItems    = 2
)

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

var errMalformed = errors.New("the protobuf is malformed")

// protobuf reads the list from a response in protobuf.
func (l *listing) protobuf() error {
	if _, err := l.from.Discard(len(protobufMark)); err != nil {
		return err
	}
	m := message{from: l.from, left: -1}
	kind := ""
	for {
		number, wire, err := m.tag()
		switch {
		case errors.Is(err, io.EOF):
			return l.is(kind)
		case err != nil:
			return err
		case number == unknownType && wire == wireBytes:
			var t runtime.TypeMeta
			if err = m.decode(t.Unmarshal); err == nil {
				kind = t.Kind
				err = l.is(kind)
			}
		case number == unknownRaw && wire == wireBytes:
			if err = l.is(kind); err == nil {
				err = l.raw(&m)
			}
		default:
			err = m.skip(wire)
		}
		if err != nil {
			return err
		}
	}
}

// raw reads the list itself, which is the next field of the message.
func (l *listing) raw(m *message) error {
	n, err := m.varint()
	if err != nil {
		return err
	}
	if n > 1<<62 {
		return errMalformed
	}
	list := message{from: m.from, left: int64(n)}
	for list.left > 0 {
		number, wire, err := list.tag()
		switch {
		case err != nil:
		case number == listMetadata && wire == wireBytes:
			err = list.decode(l.about.Unmarshal)
		case number == listItems && wire == wireBytes:
			err = l.one(func(o object) error { return list.decode(o.Unmarshal) })
		default:
			err = list.skip(wire)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// message reads a protobuf message field by field.
type message struct {
	from   *bufio.Reader
	left   int64  // remaining bytes; negative: up to the end of from
	buffer []byte // buffer of the last decoded field, reused by the next one
}

// ReadByte implements io.ByteReader within the message.
func (m *message) ReadByte() (byte, error) {
	if m.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	b, err := m.from.ReadByte()
	if err == nil && m.left > 0 {
		m.left--
	}
	return b, err
}

func (m *message) varint() (uint64, error) { return binary.ReadUvarint(m) }

// tag reads the number and the wire type of the next field; io.EOF if there is none.
func (m *message) tag() (number uint64, wire int, err error) {
	tag, err := m.varint()
	return tag >> 3, int(tag & 7), err
}

// length reads the length of the next field. It returns an error if the message or the bound of an
// object is shorter.
func (m *message) length() (int, error) {
	n, err := m.varint()
	switch {
	case err != nil:
		return 0, err
	case m.left >= 0 && n > uint64(m.left):
		return 0, errMalformed
	case n > maxObject:
		return 0, ErrTooLarge
	}
	if m.left >= 0 {
		m.left -= int64(n)
	}
	return int(n), nil
}

// decode reads the next field. The decoder must copy the bytes that it retains, as generated ones
// do: the next field reuses the buffer.
func (m *message) decode(into func([]byte) error) error {
	n, err := m.length()
	if err != nil {
		return err
	}
	if cap(m.buffer) < n {
		m.buffer = make([]byte, n+n/4)
	}
	if _, err := io.ReadFull(m.from, m.buffer[:n]); err != nil {
		return io.ErrUnexpectedEOF
	}
	return into(m.buffer[:n])
}

// skip skips a field.
func (m *message) skip(wire int) (err error) {
	n := 0
	switch wire {
	case wireVarint:
		_, err = m.varint()
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	case wireBytes:
		n, err = m.length()
		if err == nil {
			_, err = m.from.Discard(n)
		}
		return err
	default:
		return fmt.Errorf("%w: wire type %d", errMalformed, wire)
	}
	for range n {
		if _, err := m.ReadByte(); err != nil {
			return err
		}
	}
	return err
}
