package options

import (
	"encoding/json"
	"strings"
)

// Change is a difference between two configurations.
type Change struct {
	Field         string
	Before, After string // in JSON, cut at maxChange
	Live          bool   // as of the [Option]
}

// maxChange bounds a printed value, in bytes.
const maxChange = 256

// String returns the change as "field: before -> after".
func (c Change) String() string { return c.Field + ": " + c.Before + " -> " + c.After }

// Changes returns the differences between two configurations, in the order of the table. Values are
// compared as they are written.
func (t *Table[C]) Changes(before, after *C) (changes []Change) {
	for i := range t.Options {
		o := &t.Options[i]
		was, is := o.written(before, t.Origins(before)), o.written(after, t.Origins(after))
		if was != is {
			changes = append(changes, Change{o.Field, cutChange(was), cutChange(is), o.Live})
		}
	}
	return changes
}

// written returns the value of an option in JSON. An option that is empty by default is written as
// an empty one.
func (o *Option[C]) written(c *C, origins Origins) string {
	v := o.effective(c, origins)
	switch {
	case v != nil:
	case o.Shape == Text:
		v = ""
	default:
		v = map[string]any{}
	}
	text, _ := json.Marshal(v) // texts, booleans, lists and maps of them
	return string(text)
}

func cutChange(text string) string {
	if len(text) <= maxChange {
		return text
	}
	return strings.ToValidUTF8(text[:maxChange], "") + "…"
}

// Live returns the fields of the options that a running program applies, in the order of the table.
func (t *Table[C]) Live() (fields []string) {
	for i := range t.Options {
		if t.Options[i].Live {
			fields = append(fields, t.Options[i].Field)
		}
	}
	return fields
}
