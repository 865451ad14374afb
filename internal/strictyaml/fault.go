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

// MaxFaults is the maximum number of faults in a list. A document of another origin can have any number of them, each with
// all valid fields in its text.
const MaxFaults = 100

// Faults are the faults of one document or command line. If there are more than [MaxFaults], a last one states that, and
// the length of the list does not show whether a later fault was found.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Add appends a fault. A fault beyond [MaxFaults] is not even formatted.
func (fs *Faults) Add(path, value, format string, args ...any) {
	if !fs.isFull() {
		*fs = append(*fs, Fault{path, shorten(value), fmt.Sprintf(format, args...)})
	}
}

// Append appends a fault of another list, within the same bound as Add.
func (fs *Faults) Append(f Fault) {
	if !fs.isFull() {
		*fs = append(*fs, f)
	}
}

// isFull reports whether the list has no room for a further fault. The first time it appends that there are more.
func (fs *Faults) isFull() bool {
	if len(*fs) == MaxFaults {
		*fs = append(*fs, Fault{Problem: fmt.Sprintf("and more: only the first %d errors are listed", MaxFaults)})
	}
	return len(*fs) > MaxFaults
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
