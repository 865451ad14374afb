package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// version is the version of the file's format:
//
//  1. The state is that of the decisions alone.
//  2. The state has a section for each owner.
//  3. The file contains the reference of its times.
//  4. Sections and fields have the names of the documents.
const version = 4

// migrations convert the state of a version to the next one. Every change of the format needs a
// version and an entry here: a state saved before an upgrade remains usable after it.
var migrations = map[int]func(json.RawMessage) (json.RawMessage, error){
	1: func(decisions json.RawMessage) (json.RawMessage, error) {
		return json.Marshal(map[string]json.RawMessage{"decisions": decisions})
	},
	2: func(sections json.RawMessage) (json.RawMessage, error) { return sections, nil },
	3: func(sections json.RawMessage) (json.RawMessage, error) {
		for _, r := range renamedIn4 {
			sections = rename(sections, strings.Split(r.path, "."), r.name)
		}
		return sections, nil
	},
}

// renamedIn4 lists the fields with another name since version 4, inner ones first. An asterisk
// is each element of a list.
var renamedIn4 = []struct{ path, name string }{
	{"restraint.reliefs.*.futile", "ineffective"},
	{"restraint.reliefs.*.holds", "limits"},
	{"restraint.reliefs", "conditions"},
	{"restraint", "limiter"},
	{"debts", "pendingStatuses"},
	{"arming.all.word", "setting"},
	{"arming.node.word", "setting"},
}

// rename returns the value with another name of the field at the path. A value of another form
// stays unchanged: its owner reports it.
func rename(value json.RawMessage, path []string, name string) json.RawMessage {
	if path[0] == "*" {
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) != nil {
			return value
		}
		for i := range elements {
			elements[i] = rename(elements[i], path[1:], name)
		}
		return encode(elements, value)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil || fields[path[0]] == nil {
		return value
	}
	if len(path) > 1 {
		fields[path[0]] = rename(fields[path[0]], path[1:], name)
	} else {
		fields[name] = fields[path[0]]
		delete(fields, path[0])
	}
	return encode(fields, value)
}

// encode returns v as JSON, or the original value if that fails.
func encode(v any, original json.RawMessage) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return original
	}
	return text
}

var errNoVersion = errors.New("it has no version")

// parse reads the text of a file, field by field: a later version may have other fields, and other
// types of these.
func parse(text []byte) (c content, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return c, err
	}
	if err := json.Unmarshal(fields["version"], &c.Version); err != nil || c.Version < 1 {
		return c, errNoVersion
	}
	if err := json.Unmarshal(fields["bootID"], &c.BootID); err != nil {
		return c, fmt.Errorf("it has no boot ID: %w", err)
	}
	c.State = fields["state"]
	for name, into := range map[string]any{"saved": &c.Saved, "clock": &c.Clock} {
		if raw, there := fields[name]; there {
			if err := json.Unmarshal(raw, into); err != nil && c.Version <= version {
				return c, fmt.Errorf("its field %s: %w", name, err)
			}
		}
	}
	return c, nil
}

// migrate converts the state to this version. The state of a later one stays unchanged: its
// readable parts are used.
func (c *content) migrate() (err error) {
	for v := c.Version; v < version; v++ {
		if c.State, err = migrations[v](c.State); err != nil {
			return fmt.Errorf("bring version %d to version %d: %w", v, v+1, err)
		}
	}
	return nil
}

// keepLater preserves a copy of the file of a later version, which this program is about to
// overwrite.
func (f *File) keepLater(text []byte, v int) (notice string) {
	aside := f.path + laterSuffix
	notice = fmt.Sprintf("the state file is of version %d, this program writes version %d: its known fields are used", v, version)
	if err := os.WriteFile(aside, text, 0o600); err != nil {
		return fmt.Sprintf("%s; it could not be copied to %s: %v", notice, aside, err)
	}
	return notice + "; a copy is " + aside
}

// Partly is the error for a section with some unreadable fields: the others were decoded.
type Partly struct {
	Section string
	Err     *json.UnmarshalTypeError
}

func (e *Partly) Error() string {
	return fmt.Sprintf("read %s from the state file: %v", e.Section, e.Err)
}

func (e *Partly) Unwrap() error { return e.Err }
