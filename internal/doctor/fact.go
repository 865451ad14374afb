package doctor

import "cmp"

// Fact is a value that may be unknown. The zero Fact is unknown.
type Fact[T any] struct {
	Value T
	Known bool
	Cause string // why it is unknown: what was attempted, on what, and the error
}

// Known returns a fact with its value.
func Known[T any](v T) Fact[T] { return Fact[T]{Value: v, Known: true} }

// Unknown returns a fact that could not be read.
func Unknown[T any](cause string) Fact[T] { return Fact[T]{Cause: cause} }

// Read returns the fact that a read returned, unknown with its error as the cause.
func Read[T any](v T, err error) Fact[T] {
	if err != nil {
		return Unknown[T](err.Error())
	}
	return Known(v)
}

// missing returns why the fact is unknown; empty if it is known.
func (f Fact[T]) missing() string {
	if f.Known {
		return ""
	}
	return cmp.Or(f.Cause, "not examined")
}
