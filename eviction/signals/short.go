package signals

import (
	"math"
	"strconv"
)

// Short returns an amount with two significant digits at least, rounded down: an amount below a
// threshold must not appear as the threshold.
func (u Unit) Short(n Amount) string {
	base, suffixes := 1000.0, [...]string{"", "k", "M", "G", "T", "P", "E"}
	if u == UnitBytes {
		base, suffixes = 1024, [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	}
	v, i := float64(n), 0
	for math.Abs(v) >= base && i < len(suffixes)-1 {
		v /= base
		i++
	}
	if math.Abs(v) < 10 {
		v = math.Floor(v*10) / 10
	} else {
		v = math.Floor(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + suffixes[i]
}
