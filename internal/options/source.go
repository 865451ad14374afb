package options

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Source makes the configurations of a program: each of the present file, and of the flags that
// override it. One goroutine uses it at a time.
type Source[C any] struct {
	table *Table[C]
	path  string
	flags *Flags
	sum   string
}

// Source returns the source of a file, none if path is empty, and flags.
func (t *Table[C]) Source(path string, flags *Flags) *Source[C] {
	return &Source[C]{table: t, path: path, flags: flags}
}

// Path returns the path of the file, and an empty one if there is none.
func (s *Source[C]) Path() string { return s.path }

// Sum returns the sum of the file at the last Load, in the form of [Sum]; empty without a file.
func (s *Source[C]) Sum() string { return s.sum }

// Sum returns the SHA-256 of the content of a file, as sha256sum prints it.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Load returns the configuration to start with: the defaults, the file and the flags; later ones
// override earlier ones. Returns [strictyaml.Faults] with every fault if the configuration is not
// valid, and another error if the file cannot be read.
func (s *Source[C]) Load() (*C, error) {
	if s.path == "" {
		return s.parse(nil)
	}
	data, err := ReadFile(s.path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration given by --config: %w", err)
	}
	s.sum = Sum(data)
	return s.Parse(data)
}

// IsWatchable reports whether the file can be read again for changes: a pipe cannot.
func (s *Source[C]) IsWatchable() bool {
	if s.path == "" {
		return false
	}
	info, err := os.Stat(s.path)
	return err != nil || info.Mode().IsRegular()
}

// Read reads the file again. Returns an error if it cannot be read, is no regular file, or is larger
// than MaxFileBytes.
func (s *Source[C]) Read() ([]byte, error) {
	data, err := readRegular(s.path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration again: %w", err)
	}
	return data, nil
}

// Parse returns the configuration made of the defaults, a content of the file and the flags. Returns
// [strictyaml.Faults] with every fault if the configuration is not valid.
func (s *Source[C]) Parse(data []byte) (*C, error) {
	return s.parse(func(c *C, faults *strictyaml.Faults) { s.table.readFile(c, data, faults) })
}

// parse returns the configuration of the defaults, what read adds if it is not nil, and the flags.
func (s *Source[C]) parse(read func(*C, *strictyaml.Faults)) (*C, error) {
	t := s.table
	c := t.Defaults()
	var faults strictyaml.Faults
	if read != nil {
		read(c, &faults)
	}
	for i := range t.Options {
		o := &t.Options[i]
		if given := s.flags.given(o.Field); len(given) > 0 {
			t.Origins(c)[o.Field] = Origin{"--" + o.Flag, given[len(given)-1]}
			o.fromFlag(c, given, &faults)
		}
	}
	t.Validate(c, &faults)
	return c, faults.Err()
}

// Changes returns the differences between two configurations of the source.
func (s *Source[C]) Changes(before, after *C) []Change { return s.table.Changes(before, after) }

// Effective returns a configuration as a file with every option, in JSON. Returns an error if a value
// cannot be encoded.
func (s *Source[C]) Effective(c *C) ([]byte, error) { return s.table.Effective(c) }

// Overridden returns the fields that a flag has set, in the order of the table: the file does not
// change them.
func (s *Source[C]) Overridden() (fields []string) {
	for i := range s.table.Options {
		if field := s.table.Options[i].Field; len(s.flags.given(field)) > 0 {
			fields = append(fields, field)
		}
	}
	return fields
}
