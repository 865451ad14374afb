package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the maximum size of a file in bytes.
const MaxFile = 64 << 10

// Fault is one error of a file.
type Fault struct {
	Line    int    // 0 for the whole file
	Path    string // of the field, such as pods[1].request
	Problem string
}

func (f Fault) Error() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	return b.String() + f.Problem
}

// Faults are all errors of a file.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// field is a value of a document, or the place of an absent one. Its methods add faults to the
// document and return the zero value then.
type field struct {
	node   *yaml.Node // nil: absent
	line   int        // of the surrounding value, if absent
	path   string
	faults *Faults
}

// read parses a document and passes its content to a function. Returns Faults.
func read(text []byte, into func(field)) error {
	var faults Faults
	root, err := parse(text)
	if err != nil {
		return Faults{{Problem: err.Error()}}
	}
	into(field{node: root, faults: &faults})
	if len(faults) > 0 {
		return faults
	}
	return nil
}

func parse(text []byte) (*yaml.Node, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), MaxFile)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	if len(document.Content) != 1 {
		return nil, errors.New("empty")
	}
	return document.Content[0], nil
}

func (f field) fault(format string, args ...any) {
	line := f.line
	if f.node != nil {
		line = f.node.Line
	}
	*f.faults = append(*f.faults, Fault{line, f.path, fmt.Sprintf(format, args...)})
}

func (f field) present() bool { return f.node != nil }

// required reports whether the field is present, and adds a fault if not.
func (f field) required() bool {
	if f.node == nil {
		f.fault("required, but absent")
	}
	return f.node != nil
}

// object is a mapping.
type object struct {
	field
	values map[string]*yaml.Node
	known  []string
}

// object reads a mapping. The caller calls end after the last get.
func (f field) object() *object {
	o := &object{field: f, values: map[string]*yaml.Node{}}
	if f.node == nil {
		return o
	}
	if f.node.Kind != yaml.MappingNode {
		f.fault("want a mapping")
		return o
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		key, value := f.node.Content[i], f.node.Content[i+1]
		name := key.Value
		at := field{node: key, path: join(f.path, shorten(name)), faults: f.faults}
		switch {
		case key.Kind != yaml.ScalarNode:
			f.fault("a key is no word")
		case o.values[name] != nil:
			at.fault("duplicate key")
		case value.Kind == yaml.AliasNode || value.Anchor != "":
			at.fault("anchors and aliases are not supported: repeat the value")
		default:
			o.values[name] = value
		}
	}
	return o
}

// get returns a value of the mapping, which may be absent.
func (o *object) get(name string) field {
	o.known = append(o.known, name)
	line := o.line
	if o.node != nil {
		line = o.node.Line
	}
	return field{node: o.values[name], line: line, path: join(o.path, name), faults: o.faults}
}

// end adds a fault for each key that was not read.
func (o *object) end() {
	if o.node == nil || o.node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		if key := o.node.Content[i]; o.values[key.Value] != nil && !slices.Contains(o.known, key.Value) {
			field{node: key, path: join(o.path, shorten(key.Value)), faults: o.faults}.fault("unknown field: use %s", strings.Join(o.known, ", "))
		}
	}
}

// list reads a sequence of at most limit values.
func (f field) list(limit int) (all []field) {
	if f.node == nil {
		return nil
	}
	if f.node.Kind != yaml.SequenceNode {
		f.fault("want a list")
		return nil
	}
	if n := len(f.node.Content); n > limit {
		f.fault("%d entries, at most %d", n, limit)
		return nil
	}
	for i, node := range f.node.Content {
		at := field{node: node, path: fmt.Sprintf("%s[%d]", f.path, i), faults: f.faults}
		if node.Kind == yaml.AliasNode || node.Anchor != "" {
			at.fault("anchors and aliases are not supported: repeat the value")
			continue
		}
		all = append(all, at)
	}
	return all
}

// scalar returns the text of a scalar and whether there is one.
func (f field) scalar() (string, bool) {
	switch {
	case f.node == nil:
		return "", false
	case f.node.Kind != yaml.ScalarNode || f.node.Tag == "!!null":
		f.fault("want a value")
		return "", false
	}
	return f.node.Value, true
}

// maxText bounds a text; that of a file of a contestant is longer.
const (
	maxText     = 1000
	maxLongText = 16 << 10
)

func (f field) text() string { return f.bounded(maxText) }

func (f field) bounded(limit int) string {
	s, ok := f.scalar()
	switch {
	case !ok:
		return ""
	case f.node.Tag != "!!str":
		f.fault("%s: want a text: put it in quotes", shorten(s))
		return ""
	case len(s) > limit:
		f.fault("%d bytes, at most %d", len(s), limit)
		return ""
	case strings.ContainsRune(s, 0):
		f.fault("contains a zero byte")
		return ""
	}
	return s
}

func (f field) texts(limit int) (all []string) {
	for _, entry := range f.list(limit) {
		all = append(all, entry.text())
	}
	return all
}

// number reads a whole number.
func (f field) number(low, high int) int {
	s, ok := f.scalar()
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		f.fault("%s: want a whole number from %d to %d", shorten(s), low, high)
		return 0
	}
	return n
}

func (f field) boolean() bool {
	s, ok := f.scalar()
	if ok && s != "true" && s != "false" {
		f.fault("%s: want true or false", shorten(s))
	}
	return s == "true"
}

// maxTime bounds every duration of a file.
const maxTime = 10 * time.Minute

func (f field) duration() time.Duration {
	s, ok := f.scalar()
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxTime {
		f.fault("%s: want a time from 0s to %s, such as 1.5s", shorten(s), maxTime)
		return 0
	}
	return d
}

// choice reads one of the words.
func (f field) choice(words ...string) string {
	s := f.text()
	if f.present() && s != "" && !slices.Contains(words, s) {
		f.fault("%s: use %s", shorten(s), strings.Join(words, ", "))
		return ""
	}
	return s
}

// naming matches names, which are part of file names and of cgroups.
var naming = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

func (f field) name() string {
	if !f.required() {
		return ""
	}
	faults := len(*f.faults)
	s := f.text()
	if len(*f.faults) == faults && !naming.MatchString(s) {
		f.fault("%q: use lower-case letters, digits and -, at most 40", shorten(s))
		return ""
	}
	return s
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func shorten(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\n", " "), "?")
}
