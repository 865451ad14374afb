package doctor

import "cmp"

// A Fact is something that was looked for. The zero Fact is unknown.
type Fact[T any] struct {
	Value T
	Known bool
	Cause string // why it is not known: what was tried, on what, and what came of it
}

// Known is a fact with its value.
func Known[T any](v T) Fact[T] { return Fact[T]{Value: v, Known: true} }

// Unknown is a fact that could not be had.
func Unknown[T any](cause string) Fact[T] { return Fact[T]{Cause: cause} }

// missing is why the fact is not known; empty if it is.
func (f Fact[T]) missing() string {
	if f.Known {
		return ""
	}
	return cmp.Or(f.Cause, "nobody looked")
}
