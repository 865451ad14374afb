package main

import (
	"slices"
	"strings"
)

// listKeys are the fields by which elements of lists are identified in the statuses of nodes and pods, the
// first one present counts.
var listKeys = []string{"type", "name", "ip", "uid"}

// merge applies a strategic merge patch to a value of JSON, and returns the result. The old value is not
// changed.
func merge(old, patch any) any {
	switch change := patch.(type) {
	case object:
		result := object{}
		before, _ := old.(object)
		for key, value := range before {
			result[key] = value
		}
		for key, value := range change {
			switch {
			case strings.HasPrefix(key, "$"): // directives about order
			case value == nil:
				delete(result, key)
			default:
				result[key] = merge(result[key], value)
			}
		}
		return result
	case []any:
		before, _ := old.([]any)
		return mergeLists(before, change)
	}
	return patch
}

// mergeLists merges elements with the same key, and adds or deletes others. A list without keys is replaced.
func mergeLists(old, patch []any) []any {
	result := slices.Clone(old)
	for _, element := range patch {
		key, value := identity(element)
		if key == "" {
			return slices.DeleteFunc(slices.Clone(patch), isDirective)
		}
		at := slices.IndexFunc(result, func(other any) bool {
			o, _ := other.(object)
			return o[key] == value
		})
		deleted := element.(object)["$patch"] == "delete"
		switch {
		case at >= 0 && deleted:
			result = slices.Delete(result, at, at+1)
		case at >= 0:
			result[at] = merge(result[at], element)
		case !deleted:
			result = append(result, merge(nil, element))
		}
	}
	return result
}

// isDirective reports whether an element only demands that the list is replaced.
func isDirective(element any) bool {
	o, _ := element.(object)
	return len(o) == 1 && o["$patch"] != nil
}

// identity returns the field that identifies an element of a list, and its value, or "".
func identity(element any) (key string, value any) {
	o, _ := element.(object)
	for _, key := range listKeys {
		if value, isText := o[key].(string); isText {
			return key, value
		}
	}
	return "", nil
}
