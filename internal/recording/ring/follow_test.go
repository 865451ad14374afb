package ring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// appender appends segments to a directory, as an agent does.
type appender struct {
	t       *testing.T
	dir     string
	encoder *recording.Encoder
	number  uint64
	seq     uint64
}

var followStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAppender(t *testing.T) *appender {
	return &appender{t: t, dir: t.TempDir(), encoder: recording.NewEncoder(recording.Header{Node: "n", Started: followStart})}
}

func (a *appender) write(b []byte) {
	a.t.Helper()
	f, err := os.OpenFile(filepath.Join(a.dir, nameOf(a.number)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write(b)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		a.t.Fatal(err)
	}
}

// segment begins a segment. Its number need not follow that of the one before.
func (a *appender) segment(skip uint64) {
	a.number += 1 + skip
	a.encoder.Reset(a.number)
	b, err := a.encoder.Header(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(b)
}

// check returns a frame.
func (a *appender) check() []byte {
	a.seq++
	c := recording.Check{Seq: a.seq, Snapshot: signals.Snapshot{At: followStart.Add(time.Duration(a.seq) * time.Second)}}
	b, ok := a.encoder.Check(nil, &c)
	if !ok {
		a.t.Fatal("not encoded")
	}
	return b
}

// followedNow returns the numbers of the segments and checks that a follower reads now, such as "s1 1 2 s2 3".
func followedNow(t *testing.T, f *Follower) string {
	t.Helper()
	var all []string
	for {
		e, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e == nil:
			return strings.Join(all, " ")
		case e.Header != nil:
			all = append(all, fmt.Sprintf("s%d", e.Header.Segment))
		case e.Check != nil:
			all = append(all, fmt.Sprint(e.Check.Seq))
		}
	}
}

func TestFollow_NewestSegmentsAndWhatFollows(t *testing.T) {
	a := newAppender(t)
	for range 3 {
		a.segment(0)
		a.write(slices.Concat(a.check(), a.check()))
	}
	f, err := Follow(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	expect := func(about, want string) {
		t.Helper()
		if got := followedNow(t, f); got != want {
			t.Errorf("%s: got %q, want %q", about, got, want)
		}
	}
	expect("the newest two segments", "s2 3 4 s3 5 6")
	expect("nothing more", "")
	frame := a.check()
	a.write(frame[:len(frame)/2])
	expect("a part of a frame", "")
	a.write(frame[len(frame)/2:])
	expect("the rest of it", "7")
	a.write(a.check())
	a.segment(4)
	a.write(a.check())
	expect("the end of a segment, and one with a later number", "8 s8 9")
	a.write(a.check()[:10]) // the agent is killed
	a.segment(0)
	a.write(a.check())
	expect("a segment behind an incomplete frame", "s9 11")
	if d := f.Damage(); d.Tail != 1 || d.Any() {
		t.Errorf("damage %+v", d)
	}
	for _, name := range []uint64{2, 3, 8} {
		if err := os.Remove(filepath.Join(a.dir, nameOf(name))); err != nil {
			t.Fatal(err)
		}
	}
	a.write(a.check())
	expect("after old segments were removed", "12")
}

// An agent that has just been started has no segment yet.
func TestFollow_WaitsForFirstSegment(t *testing.T) {
	a := newAppender(t)
	f, err := Follow(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := followedNow(t, f); got != "" {
		t.Errorf("got %q of an empty directory", got)
	}
	a.segment(6)
	a.write(a.check())
	if got := followedNow(t, f); got != "s7 1" {
		t.Errorf("got %q", got)
	}
	if _, err := Follow(filepath.Join(a.dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// A recording that an agent's ring writes is followed to its last value. Virtual time stands still while the ring
// writes: the wait of Close cannot end before.
func TestFollow_ReadsRing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := Start(Options{Dir: dir, Size: MinSize, Header: recording.Header{Node: "n", Started: followStart}})
		for i := range 100 {
			e, now := r.Next(), followStart.Add(time.Duration(i)*time.Second)
			e.Check.Snapshot.At, e.Check.Seq = now, uint64(i)
			r.Commit(now, true)
		}
		if !r.Close() {
			t.Fatal("the disk hangs")
		}
	})
	f, err := Follow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := followedNow(t, f); !strings.HasPrefix(got, "s1 0 1 ") || !strings.HasSuffix(got, " 98 99") {
		t.Errorf("got %q", got)
	}
}
