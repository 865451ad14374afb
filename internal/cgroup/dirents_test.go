package cgroup

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// dirent builds one linux_dirent64.
func dirent(kind byte, name string) []byte {
	length := (direntName + len(name) + 1 + 7) &^ 7
	e := make([]byte, length)
	binary.NativeEndian.PutUint16(e[direntLength:], uint16(length))
	e[direntType] = kind
	copy(e[direntName:], name)
	return e
}

func directories(entries []byte) (names []string) {
	for len(entries) > 0 {
		var name []byte
		name, entries = NextDirectory(entries)
		if name != nil {
			names = append(names, string(bytes.TrimRight(name, "\x00")))
		}
	}
	return names
}

func TestNextDirectory_SkipsFilesAndDots(t *testing.T) {
	entries := slices.Concat(dirent(typeDir, "."), dirent(typeDir, ".."), dirent(8, "cgroup.procs"),
		dirent(typeDir, "main"), dirent(8, "tasks"), dirent(typeDir, "..data"), dirent(typeDir, "x"))
	if got, want := directories(entries), []string{"main", "..data", "x"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := directories(entries[:len(entries)-1]); slices.Contains(got, "x") {
		t.Errorf("got %v from a truncated entry", got)
	}
}

func FuzzNextDirectory(f *testing.F) {
	f.Add(slices.Concat(dirent(typeDir, "main"), dirent(8, "tasks")))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0}, 64))
	f.Fuzz(func(t *testing.T, entries []byte) {
		for len(entries) > 0 {
			name, rest := NextDirectory(entries)
			if len(rest) >= len(entries) {
				t.Fatal("no progress")
			}
			if name != nil && (name[len(name)-1] != 0 || bytes.IndexByte(name, 0) != len(name)-1) {
				t.Fatalf("name %q does not end with its zero byte", name)
			}
			entries = rest
		}
	})
}
