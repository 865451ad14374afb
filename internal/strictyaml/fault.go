package strictyaml

import (
	"fmt"
	"strings"
)

// Fault is one error in a document of a user.
type Fault struct {
	Path    string // of the field, such as steps[2].at; empty for the whole document
	Value   string // as found; empty if there was none
	Problem string // the error and the expected value
}

func (f Fault) Error() string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	if f.Value != "" {
		b.WriteString(f.Value + ": ")
	}
	b.WriteString(f.Problem)
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// Faults are all faults of one document or command line.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Add appends a fault.
func (fs *Faults) Add(path, value, format string, args ...any) {
	*fs = append(*fs, Fault{path, shorten(value), fmt.Sprintf(format, args...)})
}

// Err returns the faults as an error, or nil if there are none.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
