package recording

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A frame is a head of 8 bytes and a payload:
//
//	0      marker
//	1-3    length of the payload, little endian
//	4-7    CRC-32C of bytes 0 to 3 and of the payload, little endian
//
// The first byte of the payload is its kind.
const (
	headSize = 8
	marker   = 0xF1
	// MaxPayload is the maximum size of a payload.
	MaxPayload = 1 << 20
	maxFrame   = headSize + MaxPayload
)

// kind is the kind of a frame.
type kind byte

const (
	kindHeader   kind = 1 + iota // JSON of a Header; the first frame of a segment
	kindPod                      // a pod with the number by which later frames name it
	kindCheck                    // a check of the agent
	kindUsage                    // usage of all pods
	kindDecision                 // JSON of a line of the decision log
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin appends an incomplete head and the kind. Its payload is appended next, and seal completes
// the frame.
func begin(b []byte, k kind) []byte {
	return append(b, marker, 0, 0, 0, 0, 0, 0, 0, byte(k))
}

// seal completes the frame that begins at from. If its payload is too large, the frame is removed
// and ok is false.
func seal(b []byte, from int) (sealed []byte, ok bool) {
	frame := b[from:]
	n := len(frame) - headSize
	if n > MaxPayload {
		return b[:from], false
	}
	frame[1], frame[2], frame[3] = byte(n), byte(n>>8), byte(n>>16)
	binary.LittleEndian.PutUint32(frame[4:], checksum(frame))
	return b, true
}

func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:4], castagnoli), castagnoli, frame[headSize:])
}

// sizeAt returns the size of the frame at the beginning of b by its head, and 0 if there is none
// of a valid length.
func sizeAt(b []byte) int {
	if len(b) <= headSize || b[0] != marker {
		return 0
	}
	n := int(b[1]) | int(b[2])<<8 | int(b[3])<<16
	if n == 0 || n > MaxPayload || n > len(b)-headSize {
		return 0
	}
	return headSize + n
}

// isFrame reports whether the checksum of a frame is right.
func isFrame(frame []byte) bool {
	return binary.LittleEndian.Uint32(frame[4:]) == checksum(frame)
}

// frames finds the valid frames of a recording, in order.
type frames struct {
	data []byte
	at   int
	work int // bytes left to compute checksums of, behind an invalid frame
}

// searchFactor bounds the search for the next valid frame, per byte of the recording. Only input
// that was made to look like frames comes near it.
const searchFactor = 128

func newFrames(data []byte) frames {
	return frames{data: data, work: searchFactor * (len(data) + maxFrame)}
}

// next returns the next valid frame and the number of bytes skipped before it. At the end, frame
// is nil, and skipped is the size of an incomplete rest.
func (f *frames) next() (frame []byte, skipped int) {
	from := f.at
	if n := sizeAt(f.data[f.at:]); n > 0 && isFrame(f.data[f.at:f.at+n]) {
		f.at += n
		return f.data[from:f.at], 0
	}
	for i := f.at + 1; i < len(f.data); i++ {
		to := bytes.IndexByte(f.data[i:], marker)
		if to < 0 {
			break
		}
		i += to
		n := sizeAt(f.data[i:])
		if n == 0 {
			continue
		}
		if f.work -= n; f.work < 0 {
			break
		}
		if isFrame(f.data[i : i+n]) {
			f.at = i + n
			return f.data[i:f.at], i - from
		}
	}
	f.at = len(f.data)
	return nil, len(f.data) - from
}
