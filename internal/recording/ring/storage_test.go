package ring

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"plimsoll.dev/plimsoll/internal/recording"
)

// A segment that a killed process has reserved space for is cut, and never appended to.
func TestDirectory_ContinuesWithNewSegment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recording")
	d, err := openDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.create(41, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("torn")); err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(dir); !errors.Is(err, errInUse) {
		t.Errorf("a second process: %v", err)
	}
	f.Close()
	d.close() // as by the end of the process
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Dir = dir
	synctest.Test(t, func(*testing.T) { // the wait of Close does not end while the ring writes
		r := Start(o)
		offer(r, 1, false)
		r.Close()
	})
	segments, err := List(dir)
	if err != nil || len(segments) != 2 || segments[0].Number != 41 || segments[1].Number != 42 {
		t.Fatalf("segments %+v, %v", segments, err)
	}
	for _, s := range segments {
		if s.bytes > 64<<10 {
			t.Errorf("segment %d of %d bytes occupies %d", s.Number, s.Size, s.bytes)
		}
	}
	data, err := segments[1].Read()
	if checks, damage := readChecks(data); err != nil || len(checks) != 1 || damage != (recording.Damage{}) {
		t.Errorf("read %d checks, %+v, %v", len(checks), damage, err)
	}
}

func TestDirectory_Faults(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(filepath.Join(blocked, "below")); err == nil {
		t.Error("a directory below a file was created")
	}
	if _, err := List(blocked); err == nil {
		t.Error("a file was listed")
	}
	if _, err := (Segment{Path: filepath.Join(t.TempDir(), "none")}).Read(); err == nil {
		t.Error("a missing segment was read")
	}
}
