package cgroup

import (
	"bytes"
	"fmt"
)

// keyed is a line "key number" of a flat keyed file, as the kernel calls it.
type keyed struct {
	key   string
	value *uint64
	seen  bool
}

// parseKeyed fills in the lines that are wanted and says how many of them there
// were. It skips other lines and allocates nothing while it succeeds.
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

// missing is the error for the first wanted line that was not there.
func missing(file string, wanted []keyed) error {
	for i := range wanted {
		if !wanted[i].seen {
			return fmt.Errorf("%s has no line %q", file, wanted[i].key)
		}
	}
	return nil
}
