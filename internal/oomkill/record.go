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
	Truncated bool          // the end of Text may be missing
}

// bufferSize is the size in bytes of the buffer in which the kernel formats a record for /dev/kmsg:
// PRINTK_MESSAGE_MAX of kernel/printk/internal.h, since Linux 6.3. What exceeds it is dropped, and the
// sequence numbers stay consecutive. A text of 512 escaped bytes is enough. Before Linux 6.3 the buffer
// has 8192 bytes, and is larger than any record: a text has at most 1024 bytes, and each of them becomes
// four at most.
const bufferSize = 2048

// facilityShift is the position of the facility in a record's priority. Facility 0 is the kernel's:
// for a record of a program, the kernel replaces it by 1.
const facilityShift = 3

// ParseRecord parses a record: "priority,sequence,microseconds,flags[,…];text". Lines after the first
// one are properties of a device and are dropped. ok is false for any other text.
//
// A text is truncated if the newline after it is missing. If the record fills the buffer, a newline does not
// show that the text is complete. The kernel drops an escaped byte that does not fit, but it leaves one byte
// of the buffer free, and writes the newline there.
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
	line, _, ended := strings.Cut(body, "\n")
	r.Text, r.Truncated = line, !ended || len(head)+len(";")+len(line)+len("\n") == bufferSize
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
