package cgroup

import (
	"bytes"
	"encoding/binary"
)

// The layout of struct linux_dirent64, getdents64(2).
const (
	direntLength = 16 // offset of d_reclen
	direntType   = 18
	direntName   = 19
	typeDir      = 4 // DT_DIR
)

// NextDirectory splits one entry off the result of getdents64. The name, terminated by a zero
// byte, is nil if the entry is no subdirectory. rest is empty at the end and after a malformed
// entry.
func NextDirectory(entries []byte) (name, rest []byte) {
	if len(entries) < direntName+2 {
		return nil, nil
	}
	length := int(binary.NativeEndian.Uint16(entries[direntLength:]))
	if length < direntName+2 || length > len(entries) {
		return nil, nil
	}
	entry, rest := entries[:length], entries[length:]
	end := bytes.IndexByte(entry[direntName:], 0)
	if entry[direntType] != typeDir || end <= 0 {
		return nil, rest
	}
	name = entry[direntName : direntName+end+1]
	if string(name[:end]) == "." || string(name[:end]) == ".." {
		return nil, rest
	}
	return name, rest
}
