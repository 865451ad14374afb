package options

import (
	"strings"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// flagText implements [pflag.Value]. It records the texts given for one flag
// and accepts any: Load reports the faults of all flags at once.
type flagText struct {
	preset string
	shape  Shape
	given  []string
}

func (f *flagText) String() string { return f.preset }

func (f *flagText) Set(text string) error {
	f.given = append(f.given, text)
	return nil
}

func (f *flagText) Type() string {
	switch f.shape {
	case Boolean:
		return "bool"
	case List:
		return "a,b"
	case LessMap:
		return "key<value,..."
	case EqualMap:
		return "key=value,..."
	case GateMap:
		return "key=bool,..."
	}
	return "string"
}

// Flags holds the texts given for the flags of one table. The zero value holds
// none.
type Flags struct{ texts map[string]*flagText } // by the option's field

// AddFlags registers a flag for every option that has one, and returns what
// receives their texts when set is parsed.
func (t *Table[C]) AddFlags(set *pflag.FlagSet) *Flags {
	flags := &Flags{map[string]*flagText{}}
	for i := range t.Options {
		o := &t.Options[i]
		if o.Flag == "-" {
			continue
		}
		f := &flagText{preset: o.Default, shape: o.Shape}
		flags.texts[o.Field] = f
		short := ""
		if len(o.Flag) == 1 {
			short = o.Flag
		}
		registered := set.VarPF(f, o.Flag, short, strings.ReplaceAll(o.Help, "`", "")) // pflag takes a quoted word for the name of the value
		if o.Shape == Boolean {
			registered.NoOptDefVal = "true"
		}
	}
	return flags
}

// given returns the texts given for the flag of a field, in their order.
func (f *Flags) given(field string) []string {
	if t := f.texts[field]; t != nil {
		return t.given
	}
	return nil
}

// fromFlag sets the option to the texts given for its flag. Repeated maps and
// lists add up; of other values the last one counts.
func (o *Option[C]) fromFlag(c *C, given []string, faults *strictyaml.Faults) {
	where := "--" + o.Flag
	last := given[len(given)-1]
	switch o.Shape {
	case Boolean:
		switch last {
		case "true", "1", "t", "T", "TRUE", "True":
			*o.Bool(c) = true
		case "false", "0", "f", "F", "FALSE", "False":
			*o.Bool(c) = false
		default:
			faults.Add(where, last, "must be true or false")
		}
	case List:
		items := []string{}
		for item := range parts(given) {
			items = append(items, item)
		}
		*o.List(c) = items
	case LessMap:
		*o.Map(c) = mapOf(given, "<", where, faults)
	case EqualMap, GateMap:
		*o.Map(c) = mapOf(given, "=", where, faults)
	case Text:
		if problem := o.Set(c, last); problem != "" {
			faults.Add(where, last, "%s", problem)
		}
	}
}

// parts yields the parts between commas, without the blanks around them. Empty
// parts are left out.
func parts(given []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, text := range given {
			for part := range strings.SplitSeq(text, ",") {
				if part = strings.TrimSpace(part); part != "" && !yield(part) {
					return
				}
			}
		}
	}
}

// mapOf splits key<value or key=value pairs. A key that is given twice is a
// fault; the kubelet silently uses the last one.
func mapOf(given []string, separator, where string, faults *strictyaml.Faults) Map {
	m := Map{Set: true}
	for part := range parts(given) {
		key, value, ok := strings.Cut(part, separator)
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		_, twice := m.Get(key)
		switch {
		case !ok || key == "" || value == "":
			faults.Add(where, part, "must be written as key%svalue", separator)
		case twice:
			faults.Add(where, part, "%s is given twice: give it once", key)
		default:
			m.Settings = append(m.Settings, Setting{key, value, where + " " + key})
		}
	}
	return m
}
