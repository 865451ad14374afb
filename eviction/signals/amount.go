package signals

import (
	"math"
	"strconv"
)

// Distinct countable units. Measured values are at least 0.
type (
	Bytes  int64
	Inodes int64
	PIDs   int64
)

// Amount is a number in the unit of its signal.
type Amount int64

// Quantity is an amount as configured. The text is the canonical form of the Kubernetes quantity,
// which messages repeat.
type Quantity struct {
	Value Amount
	Text  string
}

func (q Quantity) String() string {
	if q.Text == "" {
		return Format(q.Value, UnitBytes)
	}
	return q.Text
}

// Format prints v as Kubernetes prints a quantity of that unit: with the largest suffix that
// leaves an integer. Below 1024 even bytes have the decimal suffix: 1000 bytes are 1k. The
// minimum int64 has no suffix, as in Kubernetes.
func Format(v Amount, u Unit) string {
	if u == UnitBytes && (v <= -1024 || v >= 1024) {
		return withSuffix(int64(v), 1024, [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
	}
	return withSuffix(int64(v), 1000, [...]string{"", "k", "M", "G", "T", "P", "E"})
}

// Readable prints v with its unit, for people: bytes are rounded down, to 1Mi from 10Mi on and to 1Ki from 10Ki on.
func Readable(v Amount, u Unit) string {
	switch u {
	case UnitInodes:
		return Format(v, u) + " inodes"
	case UnitPIDs:
		return Format(v, u) + " processes"
	}
	for _, step := range [...]Amount{1 << 20, 1 << 10} {
		if v >= 10*step {
			v -= v % step
			break
		}
	}
	return Format(v, u)
}

func withSuffix(v, base int64, suffixes [7]string) string {
	i := 0
	for v != 0 && v != math.MinInt64 && v%base == 0 && i < len(suffixes)-1 {
		v /= base
		i++
	}
	return strconv.FormatInt(v, 10) + suffixes[i]
}

// Plus returns the sum, saturated at the maximum amount.
func (a Amount) Plus(b Amount) Amount {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
