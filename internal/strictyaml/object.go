package strictyaml

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	kjson "sigs.k8s.io/json"
)

// Into decodes the value strictly into a Kubernetes object, by the rules of that type. object
// points to a zero value. It reports whether the value has no fault: then the object can be used.
func (v Value) Into(object any) (ok bool) {
	if _, is := v.mapping(); !is {
		if !v.Present() {
			v.Fault("required, but left out")
		}
		return false
	}
	if v.unreasonable(reflect.TypeOf(object)) {
		return false
	}
	problems := decode(v.v, object)
	if len(problems) > 0 && !v.blame(object) {
		for _, p := range problems {
			v.faults.Add(v.path, "", "%s", p)
		}
	}
	return len(problems) == 0
}

// decode returns the errors of the decoder for a document: often without the location, and only the
// first value of a wrong type.
func decode(document, object any) (problems []string) {
	text, err := json.Marshal(document)
	if err != nil {
		return []string{err.Error()}
	}
	strict, err := kjson.UnmarshalStrict(text, object)
	for _, e := range append(strict, err) {
		if e != nil {
			problems = append(problems, e.Error())
		}
	}
	return problems
}

// maxLeaves bounds the search for a fault, which decodes once for every leaf.
const maxLeaves = 500

// blame finds the faults in a document that cannot be decoded. It rebuilds the document leaf by
// leaf and omits each leaf that causes an error. It returns false if it found none.
func (v Value) blame(object any) (found bool) {
	leaves := v.leaves(nil)
	if len(leaves) > maxLeaves {
		return false
	}
	var good []leaf
	for _, l := range leaves {
		blank := reflect.New(reflect.TypeOf(object).Elem()).Interface()
		problems := decode(assemble(append(good, l)), blank)
		if len(problems) == 0 {
			good = append(good, l)
			continue
		}
		found = true
		l.value.Fault("%s", problems[0])
	}
	return found
}

// leaf is a scalar value and its path: keys (string) and indexes (int).
type leaf struct {
	way   []any
	value Value
}

func (v Value) leaves(way []any) (all []leaf) {
	step := func(to any) []any { return append(slices.Clone(way), to) }
	switch x := v.v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			all = append(all, Value{v.child(key), x[key], v.faults}.leaves(step(key))...)
		}
	case []any:
		for i := range x {
			all = append(all, Value{fmt.Sprintf("%s[%d]", v.path, i), x[i], v.faults}.leaves(step(i))...)
		}
	}
	if len(all) == 0 {
		return []leaf{{way, v}}
	}
	return all
}

func assemble(leaves []leaf) (document any) {
	for _, l := range leaves {
		document = put(document, l.way, l.value.v)
	}
	return document
}

func put(into any, way []any, v any) any {
	if len(way) == 0 {
		return v
	}
	if i, index := way[0].(int); index {
		list, _ := into.([]any)
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = put(list[i], way[1:], v)
		return list
	}
	key, _ := way[0].(string)
	m, ok := into.(map[string]any)
	if !ok {
		m = map[string]any{}
	}
	m[key] = put(m[key], way[1:], v)
	return m
}
