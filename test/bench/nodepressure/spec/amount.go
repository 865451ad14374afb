package spec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is an amount of memory: bytes, a share of the node's memory, or all but an amount of what is
// available when it is used. The zero value is no memory.
type Amount struct {
	Bytes  int64   // if Share is 0
	Share  float64 // of the node's memory, 0.3 for 30%
	AllBut bool    // the rest of the memory available then
}

// Of returns the amount in bytes on a node. With AllBut it is what shall remain.
func (a Amount) Of(node int64) int64 {
	if a.Share > 0 {
		return int64(a.Share * float64(node))
	}
	return a.Bytes
}

func (a Amount) zero() bool { return a.Bytes == 0 && a.Share == 0 }

// maxBytes bounds an amount; the node's limit bounds what a process gets.
const maxBytes = 1 << 40

// maxShare bounds a share: an amount of 300% is three times the node's memory.
const maxShare = 10

const allBut = "all but "

// ParseAmount parses 300MiB, 30%, or "all but 60MiB". Returns an error for any other text.
func ParseAmount(text string) (a Amount, err error) {
	rest, but := strings.CutPrefix(text, allBut)
	if digits, share := strings.CutSuffix(rest, "%"); share {
		a.Share, err = parseShare(digits)
	} else {
		a.Bytes, err = ParseBytes(rest)
	}
	a.AllBut = but
	return a, err
}

func parseShare(digits string) (float64, error) {
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n > 0) || n > 100*maxShare {
		return 0, fmt.Errorf("want a percentage above 0%% and up to %d%%", 100*maxShare)
	}
	return n / 100, nil
}

// ParseBytes parses a number of bytes: 64KiB, 300MiB, 1GiB or 4096. Returns an error for any other
// text.
func ParseBytes(text string) (int64, error) {
	digits, unit := text, int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if d, found := strings.CutSuffix(text, suffix); found {
			digits, unit = d, factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxBytes/unit {
		return 0, errors.New("want a whole number of KiB, MiB, GiB or bytes, such as 300MiB")
	}
	return n * unit, nil
}

// Rate is bytes per second. Of returns 0 for the maximum.
type Rate struct{ perSecond Amount }

// Of returns the rate in bytes per second on a node, 0 for as fast as possible.
func (r Rate) Of(node int64) int64 {
	if r.perSecond.zero() {
		return 0
	}
	return max(r.perSecond.Of(node), 1)
}

// ParseRate parses 100MiB/s, 10%/s or max. Returns an error for any other text.
func ParseRate(text string) (Rate, error) {
	if text == "max" {
		return Rate{}, nil
	}
	a, err := ParseAmount(strings.TrimSuffix(text, "/s"))
	if err != nil || !strings.HasSuffix(text, "/s") || a.AllBut || a.zero() {
		return Rate{}, errors.New("want an amount per second, such as 100MiB/s or 10%/s, or max")
	}
	return Rate{a}, nil
}

// FormatBytes returns a number of bytes in the largest unit that keeps three digits.
func FormatBytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if math.Abs(float64(n)) >= float64(u.size) {
			return strconv.FormatFloat(float64(n)/float64(u.size), 'f', precision(float64(n)/float64(u.size)), 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// precision returns the digits after the point for three digits in all.
func precision(v float64) int {
	switch v = math.Abs(v); {
	case v == math.Trunc(v) || v >= 100:
		return 0
	case v >= 10:
		return 1
	}
	return 2
}

func (f field) amount() Amount {
	s, ok := f.scalar()
	if !ok {
		return Amount{}
	}
	a, err := ParseAmount(s)
	if err != nil {
		f.fault("%s: %v", shorten(s), err)
	}
	return a
}

// fixedAmount is an amount that does not depend on what is available.
func (f field) fixedAmount() Amount {
	a := f.amount()
	if a.AllBut {
		f.fault("%q is possible in steps only", strings.TrimSpace(allBut))
		return Amount{}
	}
	return a
}

func (f field) rate() Rate {
	s, ok := f.scalar()
	if !ok {
		return Rate{}
	}
	r, err := ParseRate(s)
	if err != nil {
		f.fault("%s: %v", shorten(s), err)
	}
	return r
}
