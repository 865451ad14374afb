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

// What a quantity may be made of. Kubernetes takes any exponent and then counts
// with as many digits: 1.5e99999999 keeps it busy for hours.
const (
	maxQuantity     = 64 // characters
	largestExponent = 30
)

var exponent = regexp.MustCompile(`[eE][+-]?0*([0-9]+)$`)

// ParseQuantity reads a Kubernetes quantity of a reasonable size.
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

// Whole is the quantity as a whole number, rounded up. Of what is beyond the
// numbers that fit, it is the largest: resource.Quantity.Value says 0 of 10E.
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

// unreasonable notes the quantities of a document that must not even be
// decoded into a value of type t.
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

// fieldType is the type that a key of a mapping is decoded into.
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
