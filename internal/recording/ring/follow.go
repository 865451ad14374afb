package ring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"plimsoll.dev/plimsoll/internal/recording"
)

// followed is the number of segments, the newest ones, with which a [Follower] begins. With one alone, nothing
// would be known right after a segment began.
const followed = 2

// chunk is the number of bytes that are read at once.
const chunk = 64 << 10

// Follower reads the newest segments of a recording, and then what an agent appends. It holds one file open, and
// its memory does not depend on the size of the recording.
type Follower struct {
	dir    string
	stream *recording.Stream
	file   *os.File // nil: no segment is there yet
	number uint64   // of the file
	chunk  []byte
}

// Follow returns a follower of the recording in a directory. Returns an error if the directory can not be read.
func Follow(dir string) (*Follower, error) {
	segments, err := List(dir)
	if err != nil {
		return nil, err
	}
	f := &Follower{dir: dir, stream: recording.NewStream(), chunk: make([]byte, chunk)}
	if n := len(segments); n > 0 {
		f.number = segments[max(n-followed, 0)].Number - 1
	}
	return f, nil
}

// Damage returns the damage of the part that was read, without its place.
func (f *Follower) Damage() recording.Damage { return f.stream.Damage() }

// Next returns the next entry, and nil if there is none yet. Returns an error if a segment can not be read.
func (f *Follower) Next() (*recording.Entry, error) {
	for {
		if e := f.stream.Next(); e != nil {
			return e, nil
		}
		more, err := f.read()
		if err != nil || !more {
			return nil, err
		}
	}
}

// read adds the next bytes of the segment to the stream. At its end it opens the next segment, if there is one. It
// reports whether anything was read.
func (f *Follower) read() (more bool, err error) {
	if f.file != nil {
		if more, err = f.readFile(); more || err != nil {
			return more, err
		}
	}
	next, found, err := f.next()
	if err != nil || !found {
		return false, err
	}
	if f.file != nil { // what was appended before the next one was created
		if more, err = f.readFile(); more || err != nil {
			return more, err
		}
		f.Close()
		f.stream.End()
	}
	f.number = next.Number
	if f.file, err = os.Open(next.Path); errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		f.file = nil
		return f.read()
	}
	if err != nil {
		f.file = nil
		return false, fmt.Errorf("read a segment of a recording: %w", err)
	}
	return f.readFile()
}

func (f *Follower) readFile() (more bool, err error) {
	n, err := f.file.Read(f.chunk)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the segment %s: %w", f.file.Name(), err)
	}
	f.stream.Add(f.chunk[:n])
	return n > 0, nil
}

// next returns the segment behind the present one.
func (f *Follower) next() (s Segment, found bool, err error) {
	segments, err := List(f.dir)
	if err != nil {
		return s, false, err
	}
	for _, s := range segments {
		if s.Number > f.number {
			return s, true, nil
		}
	}
	return s, false, nil
}

// Close closes the file.
func (f *Follower) Close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
