package cgroup

import (
	"bytes"
	"fmt"
	"strings"
)

// keyed is a line "key number" of a flat keyed file, in the kernel's terms.
type keyed struct {
	key   string
	value *uint64
	seen  bool
}

// parseKeyed fills in the wanted lines and returns the number found. It skips other lines and
// allocates nothing on success.
func parseKeyed(text []byte, file string, wanted []keyed) (found int, err error) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, newline)
		key, value, _ := bytes.Cut(line, space)
		for i := range wanted {
			w := &wanted[i]
			if string(key) != w.key || w.seen {
				continue
			}
			v, ok := number(value)
			if !ok {
				return 0, fmt.Errorf("line %.60q of %s has no number", line, file)
			}
			*w.value, w.seen = v, true
			found++
		}
	}
	return found, nil
}

// missing returns the error for the first wanted line that was not found, or nil.
func missing(file string, wanted []keyed) error {
	for i := range wanted {
		if !wanted[i].seen {
			// The copy keeps the wanted lines, and what they point to, off the heap.
			return fmt.Errorf("%s has no line %q", file, strings.Clone(wanted[i].key))
		}
	}
	return nil
}
