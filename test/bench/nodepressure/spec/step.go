package spec

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Step is one step of a hog. Its verb determines which fields it uses.
type Step struct {
	Verb    string
	Amount  Amount        // of grow, shared, release, dirty, write, map
	Rate    Rate          // at
	Time    time.Duration // of hold, spin, snapshot, read
	Count   int           // of files, spawn, repeat, exit
	AtOnce  int           // of spawn: children that run at a time
	Every   time.Duration // of spawn: between two starts
	Session bool          // of spawn: each child in a session of its own
	Steps   []Step        // of spawn, repeat
}

// verbs lists the kind of value of each verb, and the other keys that it allows.
var verbs = []struct {
	name, value string
	allows      []string
}{
	{"grow", "amount", []string{"at"}},
	{"shared", "amount", []string{"at"}},
	{"release", "amount", nil},
	{"dirty", "amount", []string{"at"}},
	{"write", "amount", []string{"at"}},
	{"map", "amount", []string{"at"}},
	{"read", "time", []string{"at"}},
	{"hold", "time", nil},
	{"spin", "time", nil},
	{"snapshot", "time", nil},
	{"files", "count", nil},
	{"spawn", "count", []string{"atOnce", "every", "session", "steps"}},
	{"repeat", "count", []string{"steps"}},
	{"exit", "count", nil},
}

// options are the keys beside the verb.
var options = []string{"at", "atOnce", "every", "session", "steps"}

// Bounds of steps.
const (
	maxSteps = 64
	maxDepth = 3
	maxCount = 200_000
	maxSpawn = 4000
)

func (f field) steps(depth int) (all []Step) {
	if depth > maxDepth {
		f.fault("nested too deeply, at most %d", maxDepth)
		return nil
	}
	for _, s := range f.list(maxSteps) {
		all = append(all, s.step(depth))
	}
	return all
}

func (f field) step(depth int) (s Step) {
	o := f.object()
	defer o.end()
	o.known = append(o.known, options...)
	var names []string
	chosen := -1
	for i, v := range verbs {
		names = append(names, v.name)
		if !o.get(v.name).present() {
			continue
		}
		if chosen >= 0 {
			f.fault("both %s and %s: want one per step", verbs[chosen].name, v.name)
			return s
		}
		chosen = i
	}
	if chosen < 0 {
		if f.node.Kind == yaml.MappingNode {
			f.fault("no verb: use one of %s", strings.Join(names, ", "))
		}
		return s
	}
	v := verbs[chosen]
	s.Verb = v.name
	s.value(v.value, o.get(v.name))
	s.options(v.allows, o, depth)
	return s
}

// value reads the value of the verb.
func (s *Step) value(kind string, f field) {
	switch kind {
	case "amount":
		s.Amount = f.amount()
		if s.Amount.AllBut && s.Verb != "grow" && s.Verb != "shared" {
			f.fault("%q is possible with grow and shared only", strings.TrimSpace(allBut))
		}
	case "time":
		s.Time = f.duration()
	case "count":
		limit := maxCount
		switch s.Verb {
		case "exit":
			limit = 125
		case "spawn", "repeat":
			limit = maxSpawn
		}
		s.Count = f.number(0, limit)
	}
}

// options reads the other keys of a step.
func (s *Step) options(allowed []string, o *object, depth int) {
	for _, key := range options {
		f := o.get(key)
		switch {
		case !f.present():
			if key == "steps" && slices.Contains(allowed, key) {
				f.fault("required with %s", s.Verb)
			}
			continue
		case !slices.Contains(allowed, key):
			f.fault("not possible with %s", s.Verb)
			continue
		}
		switch key {
		case "at":
			s.Rate = f.rate()
		case "atOnce":
			s.AtOnce = f.number(1, maxSpawn)
		case "every":
			s.Every = f.duration()
		case "session":
			s.Session = f.boolean()
		case "steps":
			s.Steps = f.steps(depth + 1)
		}
	}
}
