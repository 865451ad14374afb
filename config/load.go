package config

import (
	"fmt"
	"os"
	"strconv"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// A kind is one kind of configuration: what it is called in a file, its table of
// options in the order in which it is documented, and its rules.
type kind[C any] struct {
	name    string
	options []option[C]
	preset  func() *C                    // the defaults
	origins func(*C) origins             // where it notes who set an option
	rules   func(*C, *strictyaml.Faults) // what is checked beyond the form of single values
}

// origins say where options were set, by their fields: the flag, or the place in
// the file. An option that is not in it has its default.
type origins map[string]string

// Where names the flag or field that an option came from, the field's name
// where it has its default.
func (o origins) Where(field string) string {
	if w, set := o[field]; set {
		return w
	}
	return field
}

// Given reports whether an option was set at all.
func (o origins) Given(field string) bool { return o[field] != "" }

// load makes a configuration of the defaults, the file at path (unless it is
// empty) and the flags, in this order.
func load[C any](k *kind[C], path string, flags *Flags) (*C, error) {
	c := k.preset()
	var faults strictyaml.Faults
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the configuration given by --config: %w", err)
		}
		k.readFile(c, data, &faults)
	}
	for i := range k.options {
		o := &k.options[i]
		if given := flags.given(o.field); len(given) > 0 {
			k.origins(c)[o.field] = "--" + o.flag
			o.fromFlag(c, given, &faults)
		}
	}
	k.rules(c, &faults)
	return c, faults.Err()
}

// parse makes a configuration of the defaults and the text of a file.
func parse[C any](k *kind[C], data []byte) (*C, error) {
	c := k.preset()
	var faults strictyaml.Faults
	k.readFile(c, data, &faults)
	k.rules(c, &faults)
	return c, faults.Err()
}

func (k *kind[C]) readFile(c *C, data []byte, faults *strictyaml.Faults) {
	doc := strictyaml.Parse(data, faults).Object(append([]string{"apiVersion", "kind"}, names(k.options)...)...)
	if v := doc.Need("apiVersion"); v.Present() && v.Text() != APIVersion {
		v.Fault("must be %s", APIVersion)
	}
	if v := doc.Need("kind"); v.Present() && v.Text() != k.name {
		v.Fault("must be %s", k.name)
	}
	k.readFields(c, k.options, doc)
}

// readFields sets the given ones of the kind's options.
func (k *kind[C]) readFields(c *C, options []option[C], doc strictyaml.Object) {
	for i := range options {
		if v := doc.Get(options[i].field); v.Present() {
			k.origins(c)[options[i].field] = v.Path()
			options[i].fromFile(c, v)
		}
	}
}

// names lists the fields of options, in their order.
func names[C any](options []option[C]) []string {
	all := make([]string, len(options))
	for i := range options {
		all[i] = options[i].field
	}
	return all
}

// fromFile sets the option from its field in a file.
func (o *option[C]) fromFile(c *C, v strictyaml.Value) {
	switch o.shape {
	case boolean:
		*o.setBool(c) = v.Bool(*o.setBool(c))
	case list:
		items := []string{}
		for _, item := range v.List() {
			items = append(items, item.Text())
		}
		*o.setList(c) = items
	case lessMap, equalMap:
		m := Map{Set: true}
		for _, e := range v.Entries() {
			m.Settings = append(m.Settings, Setting{e.Key, e.Value.Text(), e.Value.Path()})
		}
		*o.setMap(c) = m
	case gateMap:
		m := Map{Set: true}
		for _, e := range v.Entries() {
			m.Settings = append(m.Settings, Setting{e.Key, strconv.FormatBool(e.Value.Bool(false)), e.Value.Path()})
		}
		*o.setMap(c) = m
	case text:
		if problem := o.setText(c, v.Text()); problem != "" {
			v.Fault("%s", problem)
		}
	}
}
