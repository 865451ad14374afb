package output

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Natural compares names with their numbers by value: w-2 is before w-10. Names that differ only in
// leading zeros are compared byte by byte.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m > 0 && n > 0 {
			if c := compareNumbers(x[:m], y[:n]); c != 0 {
				return c
			}
			x, y = x[m:], y[n:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits returns the number of digits at the begin of a text.
func digits(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }

// compareNumbers compares numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// Age returns a duration in the largest unit that fits at least twice, such as 45s, 12m, 5h or 30d.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		is   time.Duration
		name string
	}{{365 * day, "y"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= 2*unit.is {
			return strconv.FormatInt(int64(d/unit.is), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(max(d, 0)/time.Second), 10) + "s"
}
