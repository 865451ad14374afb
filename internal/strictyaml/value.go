package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Value is a place in a document, present or not.
type Value struct {
	path   string
	v      any // nil, bool, json.Number, string, []any or map[string]any
	faults *Faults
}

// Parse parses a document of YAML or JSON. It appends errors to faults, as does every later use of
// the value.
func Parse(data []byte, faults *Faults) Value {
	root := Value{faults: faults}
	data, err := onlyDocument(data)
	if err != nil {
		faults.Add("", "", "%v", err)
		return root
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		faults.Add("", "", "not valid YAML or JSON: %v", err)
		return root
	}
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.UseNumber()
	if err := d.Decode(&root.v); err != nil {
		faults.Add("", "", "not valid YAML or JSON: %v", err)
	}
	return root
}

// Marshal returns a value as YAML, with the keys of its JSON. Returns an error if it has no JSON.
func Marshal(v any) ([]byte, error) { return yaml.Marshal(v) }

// onlyDocument returns an error for a second YAML document, which would be ignored silently
// otherwise.
func onlyDocument(data []byte) ([]byte, error) {
	var found []byte
	for part := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---")) {
		if isBlank(part) {
			continue
		}
		if found != nil {
			return nil, errors.New("holds more than one YAML document: keep one in a file")
		}
		found = part
	}
	return found, nil
}

// isBlank reports whether a part contains only comments and white space.
func isBlank(part []byte) bool {
	for line := range bytes.Lines(part) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// Path returns the path of the value in the document.
func (v Value) Path() string { return v.path }

// Present reports whether the value is present and not null.
func (v Value) Present() bool { return v.v != nil }

// Fault appends a fault of the value.
func (v Value) Fault(format string, args ...any) {
	v.faults.Add(v.path, v.show(), format, args...)
}

func (v Value) show() string {
	switch x := v.v.(type) {
	case nil:
		return ""
	case json.Number:
		return x.String()
	}
	text, err := json.Marshal(v.v)
	if err != nil {
		return fmt.Sprint(v.v)
	}
	return string(text)
}

// Discard returns the value with another list of faults, for a preliminary read.
func (v Value) Discard(faults *Faults) Value {
	v.faults = faults
	return v
}

func (v Value) child(key string) string {
	switch {
	case strings.ContainsAny(key, "./ []"):
		return v.path + "[" + key + "]"
	case v.path == "":
		return key
	}
	return v.path + "." + key
}

// Object reads a mapping that may have only the given keys.
func (v Value) Object(known ...string) Object {
	o := Object{Value: v}
	o.m, _ = v.mapping()
	for _, key := range slices.Sorted(maps.Keys(o.m)) {
		if !slices.Contains(known, key) {
			Value{v.child(key), o.m[key], v.faults}.Fault("unknown field: use one of %s", fieldNames(known))
		}
	}
	return o
}

// fieldNames are joined when a fault is formatted: a document can have more unknown fields than faults are stored.
type fieldNames []string

func (n fieldNames) String() string { return strings.Join(n, ", ") }

func (v Value) mapping() (map[string]any, bool) {
	m, ok := v.v.(map[string]any)
	if !ok && v.Present() {
		v.Fault("must be a mapping of fields")
	}
	return m, ok
}

// Entries reads a mapping with arbitrary keys, in the order of keys.
func (v Value) Entries() []Entry {
	m, _ := v.mapping()
	entries := make([]Entry, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, Entry{key, Value{v.child(key), m[key], v.faults}})
	}
	return entries
}

// Entry is one key of a mapping.
type Entry struct {
	Key   string
	Value Value
}

// Object is a mapping with known fields.
type Object struct {
	Value
	m map[string]any
}

// Get returns the field of that name, present or not.
func (o Object) Get(key string) Value { return Value{o.child(key), o.m[key], o.faults} }

// Need is Get for a required field.
func (o Object) Need(key string) Value {
	v := o.Get(key)
	if !v.Present() {
		v.Fault("required, but left out")
	}
	return v
}

// List reads a sequence.
func (v Value) List() []Value {
	list, ok := v.v.([]any)
	if !ok && v.Present() {
		v.Fault("must be a list")
	}
	values := make([]Value, len(list))
	for i := range list {
		values[i] = Value{fmt.Sprintf("%s[%d]", v.path, i), list[i], v.faults}
	}
	return values
}

// Text reads a string, or the digits of a number.
func (v Value) Text() string {
	switch x := v.v.(type) {
	case nil:
		return ""
	case string:
		return x
	case json.Number:
		return x.String()
	}
	v.Fault("must be a string")
	return ""
}

// Bool reads true or false; absent is the default.
func (v Value) Bool(absent bool) bool {
	switch x := v.v.(type) {
	case nil:
		return absent
	case bool:
		return x
	}
	v.Fault("must be true or false")
	return absent
}

// Int reads a whole number; absent is the default.
func (v Value) Int(absent int64) int64 {
	if !v.Present() {
		return absent
	}
	if n, ok := v.v.(json.Number); ok {
		if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
			return i
		}
	}
	v.Fault("must be a whole number")
	return absent
}

// Duration reads a Go duration; absent is the default.
func (v Value) Duration(absent time.Duration) time.Duration {
	if !v.Present() {
		return absent
	}
	d, err := time.ParseDuration(v.Text())
	if err != nil {
		v.Fault("must be a duration with a unit, such as 90s or 1m30s")
		return absent
	}
	return d
}

// Quantity reads a non-negative Kubernetes quantity.
func (v Value) Quantity() resource.Quantity {
	q, err := ParseQuantity(v.Text())
	switch {
	case err != nil:
		v.Fault("%v", err)
	case q.Sign() < 0:
		v.Fault("must not be negative")
	}
	return q
}
