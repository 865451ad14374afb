package options

import (
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Table describes one kind of configuration, held in a value of type C.
type Table[C any] struct {
	Kind     string                       // of a file
	Options  []Option[C]                  // in the order of the reference
	Defaults func() *C                    // returns a new configuration with all defaults
	Origins  func(*C) Origins             // returns the map of the configuration, which is not nil
	Validate func(*C, *strictyaml.Faults) // checks more than the form of single values, and derives values from others
}

// Load returns the configuration of a [Source]: the defaults, the file at path (if path is not empty)
// and the flags; later ones override earlier ones. Returns [strictyaml.Faults] with every fault if
// the configuration is not valid, and another error if the file cannot be read.
func (t *Table[C]) Load(path string, flags *Flags) (*C, error) { return t.Source(path, flags).Load() }

// Parse returns the configuration made of the defaults and the text of a file, or of a recording.
// Returns [strictyaml.Faults] with every fault if the configuration is not valid, or if the text is
// larger than [MaxFileBytes].
func (t *Table[C]) Parse(data []byte) (*C, error) {
	if len(data) > MaxFileBytes {
		return nil, strictyaml.Faults{{Problem: errTooLarge.Error()}}
	}
	return t.Source("", &Flags{}).Parse(data)
}

func (t *Table[C]) readFile(c *C, data []byte, faults *strictyaml.Faults) {
	doc := strictyaml.Parse(data, faults).Object(append([]string{"apiVersion", "kind"}, t.Fields()...)...)
	if v := doc.Need("apiVersion"); v.Present() && v.Text() != APIVersion {
		v.Fault("must be %s", APIVersion)
	}
	if v := doc.Need("kind"); v.Present() && v.Text() != t.Kind {
		v.Fault("must be %s", t.Kind)
	}
	t.readFields(c, t.Options, doc)
}

// ReadFields sets those of the options that the mapping v has. Other keys are
// faults of v. Validate is not called.
func (t *Table[C]) ReadFields(c *C, options []Option[C], v strictyaml.Value) {
	t.readFields(c, options, v.Object(fields(options)...))
}

func (t *Table[C]) readFields(c *C, options []Option[C], doc strictyaml.Object) {
	for i := range options {
		if v := doc.Get(options[i].Field); v.Present() {
			t.Origins(c)[options[i].Field] = Origin{v.Path(), options[i].fromFile(c, v)}
		}
	}
}

// Fields returns the fields of all options, in the order of the table.
func (t *Table[C]) Fields() []string { return fields(t.Options) }

func fields[C any](options []Option[C]) []string {
	all := make([]string, len(options))
	for i := range options {
		all[i] = options[i].Field
	}
	return all
}

// fromFile sets the option to the value of its field in a file. It returns the text
// of a single value.
func (o *Option[C]) fromFile(c *C, v strictyaml.Value) (text string) {
	switch o.Shape {
	case Boolean:
		*o.Bool(c) = v.Bool(*o.Bool(c))
	case List:
		items := []string{}
		for _, item := range v.List() {
			items = append(items, item.Text())
		}
		*o.List(c) = items
	case LessMap, EqualMap:
		m := Map{Set: true}
		for _, e := range v.Entries() {
			m.Settings = append(m.Settings, Setting{e.Key, e.Value.Text(), e.Value.Path()})
		}
		*o.Map(c) = m
	case GateMap:
		m := Map{Set: true}
		for _, e := range v.Entries() {
			m.Settings = append(m.Settings, Setting{e.Key, strconv.FormatBool(e.Value.Bool(false)), e.Value.Path()})
		}
		*o.Map(c) = m
	case Text:
		text = v.Text()
		if problem := o.Set(c, text); problem != "" {
			v.Fault("%s", problem)
		}
	}
	return text
}

// KindOf returns the kind that a configuration file names. The fields are those of
// all kinds together. Returns [strictyaml.Faults] if the file cannot be parsed, or if
// it names none of the kinds; unknown fields are reported then, too.
func KindOf(data []byte, kinds, fields []string) (string, error) {
	var faults strictyaml.Faults
	root := strictyaml.Parse(data, &faults)
	if len(faults) > 0 {
		return "", faults.Err()
	}
	if kind := root.Discard(&strictyaml.Faults{}).Object().Get("kind").Text(); slices.Contains(kinds, kind) {
		return kind, nil
	}
	if v := root.Object(slices.Concat([]string{"apiVersion", "kind"}, fields)...).Need("kind"); v.Present() {
		v.Fault("must be %s", strings.Join(kinds, " or "))
	}
	return "", faults.Err()
}
