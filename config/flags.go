package config

import (
	"strings"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// A flagText is what was given for a flag, once or several times.
type flagText struct {
	preset string
	shape  shape
	given  []string
}

func (f *flagText) String() string { return f.preset }

func (f *flagText) Set(text string) error {
	f.given = append(f.given, text)
	return nil
}

func (f *flagText) Type() string {
	switch f.shape {
	case boolean:
		return "bool"
	case list:
		return "a,b"
	case lessMap:
		return "key<value,..."
	case equalMap:
		return "key=value,..."
	case gateMap:
		return "key=bool,..."
	}
	return "string"
}

// Flags are the flags of one table of options, and what was given for them.
type Flags struct{ texts map[string]*flagText } // by the option's field

// AddFlags registers a flag for every option of the agent that has one.
func AddFlags(set *pflag.FlagSet) *Flags { return addFlags(&agentKind, set) }

// AddControllerFlags is AddFlags for the options of the controller.
func AddControllerFlags(set *pflag.FlagSet) *Flags { return addFlags(&controllerKind, set) }

func addFlags[C any](k *kind[C], set *pflag.FlagSet) *Flags {
	flags := &Flags{map[string]*flagText{}}
	for i := range k.options {
		o := &k.options[i]
		if o.flag == "-" {
			continue
		}
		f := &flagText{preset: o.preset, shape: o.shape}
		flags.texts[o.field] = f
		short := ""
		if len(o.flag) == 1 {
			short = o.flag
		}
		registered := set.VarPF(f, o.flag, short, o.help)
		if o.shape == boolean {
			registered.NoOptDefVal = "true"
		}
	}
	return flags
}

// given lists the texts given for the flag of a field, in their order.
func (f *Flags) given(field string) []string {
	if t := f.texts[field]; t != nil {
		return t.given
	}
	return nil
}

// fromFlag sets the option from the texts given for its flag. Maps and lists
// add up when the flag is repeated; of the others the last one counts.
func (o *option[C]) fromFlag(c *C, given []string, faults *strictyaml.Faults) {
	where := "--" + o.flag
	last := given[len(given)-1]
	switch o.shape {
	case boolean:
		switch last {
		case "true", "1", "t", "T", "TRUE", "True":
			*o.setBool(c) = true
		case "false", "0", "f", "F", "FALSE", "False":
			*o.setBool(c) = false
		default:
			faults.Add(where, last, "must be true or false")
		}
	case list:
		items := []string{}
		for item := range parts(given) {
			items = append(items, item)
		}
		*o.setList(c) = items
	case lessMap:
		*o.setMap(c) = mapOf(given, "<", where, faults)
	case equalMap, gateMap:
		*o.setMap(c) = mapOf(given, "=", where, faults)
	case text:
		if problem := o.setText(c, last); problem != "" {
			faults.Add(where, last, "%s", problem)
		}
	}
}

// parts yields what stands between commas, blanks around it and empty ones
// left out.
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

// mapOf splits key<value or key=value pairs. A key given twice is a fault: the
// kubelet would take the last one silently.
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
