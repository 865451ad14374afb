package hog

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// command is one parsed line.
type command struct {
	verb     string
	size     int64 // bytes
	rate     int64 // bytes per second; 0: unlimited
	count    int
	duration time.Duration
	dir      string
	word     string // argument of term
	fsync    bool
	drop     bool
}

// forms lists the first argument of each verb, and the words that can follow.
var forms = map[string]struct {
	first    string // size, count, word or empty
	required []string
	allowed  []string
}{
	"fill":    {first: "size", allowed: []string{"at"}},
	"release": {},
	"dip":     {first: "size", required: []string{"for"}, allowed: []string{"at", "for"}},
	"cache":   {first: "size", required: []string{"in"}, allowed: []string{"in", "at", "fsync", "drop"}},
	"keep":    {first: "size", required: []string{"in"}, allowed: []string{"in", "at"}},
	"random":  {first: "size", required: []string{"in", "for"}, allowed: []string{"in", "at", "for"}},
	"unpack":  {first: "size", required: []string{"in"}, allowed: []string{"in", "at"}},
	"tmpfs":   {first: "size", required: []string{"for"}, allowed: []string{"at", "for"}},
	"jvm":     {first: "size", required: []string{"for"}, allowed: []string{"at", "for"}},
	"thrash":  {first: "size", required: []string{"in", "for"}, allowed: []string{"in", "for"}},
	"fork":    {first: "count"},
	"daemons": {first: "count"},
	"crowd":   {first: "count"},
	"chain":   {first: "count"},
	"threads": {first: "count"},
	"spin":    {required: []string{"for"}, allowed: []string{"for"}},
	"term":    {first: "word"},
	"hold":    {},
	"exit":    {first: "count"},
}

// maxCount limits the cost of a mistyped fork.
const maxCount = 100_000

func parse(line string) (command, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return command{}, fmt.Errorf("empty command")
	}
	c := command{verb: words[0]}
	form, ok := forms[c.verb]
	if !ok {
		return c, fmt.Errorf("unknown command %q", c.verb)
	}
	rest, err := c.first(form.first, words[1:])
	if err != nil {
		return c, err
	}
	var seen []string
	for len(rest) > 0 {
		word := rest[0]
		if !slices.Contains(form.allowed, word) || slices.Contains(seen, word) {
			return c, fmt.Errorf("%s: unexpected %q", c.verb, word)
		}
		seen = append(seen, word)
		if rest, err = c.option(word, rest[1:]); err != nil {
			return c, err
		}
	}
	for _, word := range form.required {
		if !slices.Contains(seen, word) {
			return c, fmt.Errorf("%s: %q is missing", c.verb, word)
		}
	}
	return c, nil
}

func (c *command) first(kind string, words []string) (rest []string, err error) {
	if kind == "" {
		return words, nil
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: %s missing", c.verb, kind)
	}
	switch kind {
	case "size":
		c.size, err = ParseSize(words[0])
	case "count":
		c.count, err = strconv.Atoi(words[0])
		if err == nil && (c.count < 0 || c.count > maxCount) {
			err = fmt.Errorf("%s %d: use 0 to %d", c.verb, c.count, maxCount)
		}
	case "word":
		return c.reaction(words)
	}
	return words[1:], err
}

func (c *command) reaction(words []string) (rest []string, err error) {
	c.word = words[0]
	switch c.word {
	case "ignore", "exit":
		return words[1:], nil
	case "after":
		return c.option("for", words[1:])
	}
	return nil, fmt.Errorf("term %q: use ignore, after or exit", c.word)
}

func (c *command) option(word string, words []string) (rest []string, err error) {
	switch word {
	case "fsync":
		c.fsync = true
		return words, nil
	case "drop":
		c.drop = true
		return words, nil
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: nothing after %q", c.verb, word)
	}
	switch word {
	case "at":
		c.rate, err = ParseSize(strings.TrimSuffix(words[0], "/s"))
	case "for":
		c.duration, err = time.ParseDuration(words[0])
	case "in":
		c.dir = words[0]
	}
	return words[1:], err
}

// ParseSize parses a number of bytes: 300MiB, 64KiB, 1GiB or 4096. Returns an error if the text
// is no number with an optional unit.
func ParseSize(text string) (int64, error) {
	digits, unit := text, int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if d, ok := strings.CutSuffix(text, suffix); ok {
			digits, unit = d, factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("size %q: use a whole number of KiB, MiB, GiB or bytes", text)
	}
	return n * unit, nil
}
