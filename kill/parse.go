package kill

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A pidReader turns the text of cgroup.procs, one number a line, into numbers
// as the text comes in pieces of any length.
type pidReader struct {
	value  int
	digits int
}

// maxDigits is more than PID_MAX_LIMIT (4194304) has.
const maxDigits = 9

func (r *pidReader) feed(into []int, text []byte) ([]int, error) {
	for _, c := range text {
		switch {
		case c == '\n':
			var err error
			if into, err = r.finish(into); err != nil {
				return into, err
			}
		case c >= '0' && c <= '9' && r.digits < maxDigits:
			r.value = r.value*10 + int(c-'0')
			r.digits++
		default:
			return into, fmt.Errorf("cgroup.procs holds %q where a process number was expected", c)
		}
	}
	return into, nil
}

// finish ends the number under way, if there is one.
func (r *pidReader) finish(into []int) ([]int, error) {
	if r.digits > 0 {
		into = append(into, r.value)
	}
	*r = pidReader{}
	return into, nil
}

// The layout of struct linux_dirent64, getdents64(2).
const (
	direntLength = 16 // offset of d_reclen
	direntType   = 18
	direntName   = 19
	typeDir      = 4 // DT_DIR
)

// nextDirectory takes one entry off the front of what getdents64 returned. The
// name, which ends with a zero byte, is nil if the entry is no directory below;
// rest is empty at the end, and where the entries make no sense.
func nextDirectory(entries []byte) (name, rest []byte) {
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

// parsePopulated reads the line "populated 0" or "populated 1" of cgroup.events.
func parsePopulated(text []byte) (populated, known bool) {
	for line := range bytes.Lines(text) {
		switch string(bytes.TrimRight(line, "\n")) {
		case "populated 0":
			return false, true
		case "populated 1":
			return true, true
		}
	}
	return false, false
}

// parseStat reads the command and the state of /proc/PID/stat. The command may
// hold anything, parentheses and line ends included.
func parseStat(text []byte) (command string, state byte, ok bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open || end+2 >= len(text) || text[end+1] != ' ' {
		return "", 0, false
	}
	return string(text[open+1 : end]), text[end+2], true
}
