package config

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checked is a setter whose value has to be right, too: for one that is not,
// nothing is set.
func checked[C, T any](of func(*C) *T, read func(text string) (T, bool), problem string) setter[C] {
	return func(c *C, text string) string {
		value, ok := read(text)
		if !ok {
			return problem
		}
		*of(c) = value
		return ""
	}
}

// period is a duration above zero. Options that kube-controller-manager has are read
// by wait, as it accepts 0s.
func period[C any](of func(*C) *time.Duration) setter[C] {
	return checked(of, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d > 0
	}, "must be a duration above 0s, with a unit, such as 90s or 1m30s")
}

// wait is a duration that may be zero.
func wait[C any](of func(*C) *time.Duration) setter[C] {
	return checked(of, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= 0
	}, "must be a duration of at least 0s, with a unit, such as 90s or 1m30s")
}

// Rates are between these: slower than one in eleven days is 0, and faster than
// one in a microsecond is all at once.
const (
	slowest = 1e-6
	fastest = 1e6
)

func perSecond(text string) (float64, bool) {
	f, ok := finite(text)
	return f, ok && f >= slowest && f <= fastest
}

func perSecondOrNone(text string) (float64, bool) {
	if f, ok := finite(text); ok && f == 0 {
		return 0, true
	}
	return perSecond(text)
}

const aRate = "a number per second between 1e-6 and 1e6, such as 0.1"

// rate may be 0.
func rate[C any](of func(*C) *float64) setter[C] {
	return checked(of, perSecondOrNone, "must be 0 or "+aRate)
}

// optionalRate is a rate that may be empty, which is -1.
func optionalRate[C any](of func(*C) *float64) setter[C] {
	return checked(of, func(text string) (float64, bool) {
		if text == "" {
			return -1, true
		}
		return perSecondOrNone(text)
	}, "must be empty, 0 or "+aRate)
}

// What client-go makes of a rate and a burst of 0.
const (
	clientQPS   = 5
	clientBurst = 10
)

// requestRate is the rate of a client: -1 if it is not bounded.
func requestRate[C any](of func(*C) *float64) setter[C] {
	return checked(of, func(text string) (float64, bool) {
		if f, err := strconv.ParseFloat(text, 64); err == nil && f < 0 && !math.IsInf(f, -1) {
			return -1, true
		}
		f, ok := perSecondOrNone(text)
		if f == 0 {
			f = clientQPS
		}
		return f, ok
	}, "must be negative, 0 or "+aRate)
}

// requestBurst is how many requests a client sends at once.
func requestBurst[C any](of func(*C) *int64) setter[C] {
	return checked(of, func(text string) (int64, bool) {
		n, ok := whole(0)(text)
		if n == 0 {
			n = clientBurst
		}
		return n, ok
	}, "must be a whole number that is not negative")
}

// finite reads a number that is neither negative nor infinite.
func finite(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f >= 0 && !math.IsInf(f, 1)
}

func share[C any](of func(*C) *float64) setter[C] {
	return checked(of, func(text string) (float64, bool) {
		f, ok := finite(text)
		return f, ok && f <= 1
	}, "must be a share between 0 and 1, such as 0.05")
}

// anyShare may be above 1, which no share of nodes reaches.
func anyShare[C any](of func(*C) *float64) setter[C] {
	return checked(of, finite, "must be a number of at least 0, such as 0.55")
}

// count is a whole number that is not negative.
func count[C any](of func(*C) *int64) setter[C] {
	return checked(of, whole(0), "must be a whole number that is not negative")
}

func whole(least int64) func(string) (int64, bool) {
	return func(text string) (int64, bool) {
		n, err := strconv.ParseInt(text, 10, 32)
		return n, err == nil && n >= least
	}
}

// bound is a number of nodes or a percentage of them; empty is none.
func bound[C any](of func(*C) *Bound) setter[C] {
	return checked(of, func(text string) (Bound, bool) {
		if text == "" {
			return Bound{}, true
		}
		if percent, is := strings.CutSuffix(text, "%"); is {
			f, ok := finite(percent)
			return Bound{Set: true, Share: f / 100}, ok && f > 0 && f <= 100
		}
		n, ok := whole(1)(text)
		return Bound{Set: true, Nodes: n}, ok
	}, "must be a whole number of nodes above 0, a percentage above 0% and at most 100%, or empty")
}

// Whether a name may be left empty.
const (
	mayBeEmpty  = true
	mustBeGiven = false
)

func dnsLabel[C any](of func(*C) *string, empty bool) setter[C] {
	return checked(of, func(text string) (string, bool) {
		return text, text == "" && empty || len(validation.IsDNS1123Label(text)) == 0
	}, "must be a name of lower case letters, digits and hyphens, at most 63")
}

// address is where to listen; empty is nowhere. A host's name could come to mean
// another address.
func address[C any](of func(*C) *string) setter[C] {
	return checked(of, func(text string) (string, bool) {
		_, err := netip.ParseAddrPort(text)
		return text, text == "" || err == nil
	}, "must be IP:PORT, such as 127.0.0.1:10360, or empty")
}
