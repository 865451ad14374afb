package kill

import (
	"bytes"
	"fmt"
)

// pidReader parses cgroup.procs, one number per line, in pieces of any length.
type pidReader struct {
	value  int
	digits int
}

// maxDigits exceeds the length of PID_MAX_LIMIT (4194304).
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

// finish completes the current number, if any.
func (r *pidReader) finish(into []int) ([]int, error) {
	if r.digits > 0 {
		into = append(into, r.value)
	}
	*r = pidReader{}
	return into, nil
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

// parseStat reads the command and the state of /proc/PID/stat. The command may contain any bytes,
// including parentheses and line ends.
func parseStat(text []byte) (command string, state byte, ok bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open || end+2 >= len(text) || text[end+1] != ' ' {
		return "", 0, false
	}
	return string(text[open+1 : end]), text[end+2], true
}
