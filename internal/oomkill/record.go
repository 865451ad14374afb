package oomkill

import (
	"strconv"
	"strings"
	"time"
)

// Record is one record of the kernel's log, in the format of /dev/kmsg.
type Record struct {
	Sequence  uint64
	At        time.Duration // by the clock of the log
	Kernel    bool          // written by the kernel, not by a program through /dev/kmsg
	Continues bool          // the rest of the line of an earlier record
	Text      string        // control characters, backslashes and non-ASCII bytes are escaped as \xNN
}

// facilityShift is the position of the facility in a record's priority. Facility 0 is the kernel's:
// for a record of a program, the kernel replaces it by 1.
const facilityShift = 3

// ParseRecord parses a record: "priority,sequence,microseconds,flags[,…];text". Lines after the first
// one are properties of a device and are dropped. ok is false for any other text.
func ParseRecord(text string) (r Record, ok bool) {
	head, body, ok := strings.Cut(text, ";")
	if !ok {
		return Record{}, false
	}
	fields := strings.SplitN(head, ",", 5)
	if len(fields) < 4 || len(fields[3]) != 1 {
		return Record{}, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return Record{}, false
	}
	if r.Sequence, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return Record{}, false
	}
	micros, err := strconv.ParseUint(fields[2], 10, 52)
	if err != nil {
		return Record{}, false
	}
	r.At = time.Duration(micros) * time.Microsecond
	r.Kernel, r.Continues = priority>>facilityShift == 0, fields[3] == "c"
	r.Text, _, _ = strings.Cut(body, "\n")
	return r, true
}

// unescape returns a text of the log as it was before the kernel escaped it.
func unescape(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		if strings.HasPrefix(text, `\x`) && len(text) >= 4 {
			if c, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
				b.WriteByte(byte(c))
				text = text[4:]
				continue
			}
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}
