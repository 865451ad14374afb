// Package natural orders names by the numbers in them: pool-2 is before pool-10. It is pure, and its order is total:
// two names are equal only if all of their bytes are.
package natural

import (
	"cmp"
	"strings"
)

// Compare returns -1 if a is before b, 1 if it is behind, and 0 if they are equal. Runs of digits are compared by their
// number, everything else by bytes.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		if c := compareNumbers(x[:m], y[:n]); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b)) // pool-01 and pool-1 have the same number
}

// digits returns the number of digits at the begin of a text.
func digits(text string) int {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}

// compareNumbers compares two numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
