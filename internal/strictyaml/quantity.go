package strictyaml

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a quantity. Kubernetes accepts any exponent and then computes with as many digits:
// 1.5e99999999 occupies it for hours.
const (
	maxQuantity     = 64 // characters
	largestExponent = 30
)

var exponent = regexp.MustCompile(`[eE][+-]?0*([0-9]+)$`)

// ParseQuantity parses a Kubernetes quantity of a reasonable size. Returns an error if it is
// invalid or beyond the bounds.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := reasonable(text); err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return q, errors.New("must be a quantity, such as 100Mi, 5k or 2000")
	}
	return q, nil
}

func reasonable(text string) error {
	if len(text) > maxQuantity {
		return errors.New("is too long for a quantity")
	}
	if m := exponent.FindStringSubmatch(text); m != nil {
		if e, err := strconv.Atoi(m[1]); err != nil || e > largestExponent {
			return errors.New("has an exponent that is too large for a quantity")
		}
	}
	return nil
}

// Whole returns the quantity as a whole number, rounded up. Beyond the range of int64 it returns
// the largest one, where resource.Quantity.Value returns 0, as for 10E.
func Whole(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	case q.CmpInt64(-math.MaxInt64) <= 0:
		return -math.MaxInt64
	}
	return q.Value()
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// unreasonable reports the quantities of a document that must not even be decoded into a value of
// type t.
func (v Value) unreasonable(t reflect.Type) (found bool) {
	switch x := v.v.(type) {
	case string:
		return v.unreasonableText(x, t)
	case json.Number:
		return v.unreasonableText(x.String(), t)
	case map[string]any:
		for _, e := range v.Entries() {
			if field, ok := fieldType(t, e.Key); ok && e.Value.unreasonable(field) {
				found = true
			}
		}
	case []any:
		if t = pointedTo(t); t.Kind() != reflect.Slice {
			return false
		}
		for _, item := range v.List() {
			if item.unreasonable(t.Elem()) {
				found = true
			}
		}
	}
	return found
}

func (v Value) unreasonableText(text string, t reflect.Type) bool {
	if pointedTo(t) != quantityType {
		return false
	}
	err := reasonable(text)
	if err != nil {
		v.Fault("%v", err)
	}
	return err != nil
}

// fieldType returns the type that a key of a mapping is decoded into.
func fieldType(t reflect.Type, key string) (reflect.Type, bool) {
	switch t = pointedTo(t); t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == key {
				return f.Type, true
			}
			if f.Anonymous && name == "" {
				if inner, ok := fieldType(f.Type, key); ok {
					return inner, true
				}
			}
		}
	}
	return nil, false
}

func pointedTo(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
