package strictyaml

import (
	"fmt"
	"strings"
)

// A Fault is one thing that is wrong with what a user wrote.
type Fault struct {
	Path    string // of the field, such as steps[2].at; empty for the whole document
	Value   string // as it was found; empty where nothing was
	Problem string // what is wrong and what would be right
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

// Add notes a fault.
func (fs *Faults) Add(path, value, format string, args ...any) {
	*fs = append(*fs, Fault{path, shorten(value), fmt.Sprintf(format, args...)})
}

// Err returns the faults as an error, nil if there are none.
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
