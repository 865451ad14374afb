package options

// APIVersion is the apiVersion of every configuration file and scenario.
const APIVersion = "plimsoll.dev/v1alpha1"

// Shape selects the notation of an option's value, as a flag and in a file.
type Shape uint8

// The shapes of values.
const (
	Text     Shape = iota // one value as text; a scalar in a file
	Boolean               // true or false; the flag alone means true
	List                  // a,b; a sequence in a file
	LessMap               // key<value,...; a mapping in a file
	EqualMap              // key=value,...; a mapping in a file
	GateMap               // key=true,key=false,...; a mapping to booleans in a file
)

// Option describes one option of a configuration of type C. Exactly one of Set,
// Bool, List and Map is not nil, the one that fits the shape; Bool, List and Map
// return the variable that holds the value.
type Option[C any] struct {
	Field   string // name in a file, lowerCamelCase
	Flag    string // name on the command line, without dashes; "-" if there is no flag
	Shape   Shape
	Default string // as the help text and the reference show it
	Help    string // one sentence or more
	// Live: a running program applies a change of the file. Otherwise it has to restart.
	Live bool

	Set  Setter[C]        // for Text
	Bool func(c *C) *bool // for Boolean
	List func(c *C) *[]string
	Map  func(c *C) *Map // for LessMap, EqualMap and GateMap
}

// Map is the value of an option that is a map, in the order in which it was
// written.
type Map struct {
	Set      bool // whether the option was set: an empty map is not the default
	Settings []Setting
}

// Setting is one entry of a Map. Where names the flag or the place in the file
// that set it.
type Setting struct{ Key, Text, Where string }

// Get returns the entry with the key, and false if there is none.
func (m Map) Get(key string) (Setting, bool) {
	for _, s := range m.Settings {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// Origin is where an option was set: the flag, or the place in the file. Text is the
// text given there, if the value is of the shape Text.
type Origin struct{ Where, Text string }

// Origins maps the field of each option that was set to its origin. Options with
// their default are missing.
type Origins map[string]Origin

// Where returns the flag or the place in the file that set the field, or the
// field itself if it has its default.
func (o Origins) Where(field string) string {
	if origin, set := o[field]; set {
		return origin.Where
	}
	return field
}

// Given reports whether the field was set by a file or a flag.
func (o Origins) Given(field string) bool { return o[field].Where != "" }
