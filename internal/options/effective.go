package options

import (
	"encoding/json"
	"fmt"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Effective returns a configuration as a file with every option, in JSON. A program
// with other defaults reads the same configuration from it. The error is always nil
// for a configuration that was loaded.
func (t *Table[C]) Effective(c *C) ([]byte, error) {
	values := map[string]any{"apiVersion": APIVersion, "kind": t.Kind}
	for i := range t.Options {
		o := &t.Options[i]
		if v := o.effective(c, t.Origins(c)); v != nil {
			values[o.Field] = v
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encode the effective %s: %w", t.Kind, err)
	}
	return text, nil
}

// effective returns the value of an option as in a file, and nil if it is empty by
// default.
func (o *Option[C]) effective(c *C, origins Origins) any {
	switch o.Shape {
	case Boolean:
		return *o.Bool(c)
	case List:
		return append([]string{}, *o.List(c)...)
	case LessMap, EqualMap, GateMap:
		m, separator := *o.Map(c), "="
		if o.Shape == LessMap {
			separator = "<"
		}
		if !m.Set && o.Default == "" {
			return nil
		}
		if !m.Set {
			m = mapOf([]string{o.Default}, separator, o.Field, &strictyaml.Faults{})
		}
		return o.entries(m)
	}
	if origin, given := origins[o.Field]; given {
		return origin.Text
	}
	if o.Default == "" {
		return nil
	}
	return o.Default
}

func (o *Option[C]) entries(m Map) map[string]any {
	entries := map[string]any{}
	for _, s := range m.Settings {
		if entries[s.Key] = s.Text; o.Shape == GateMap {
			entries[s.Key] = s.Text == "true"
		}
	}
	return entries
}
