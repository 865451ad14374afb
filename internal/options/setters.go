package options

import (
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Setter parses text and stores the value in a configuration. On a fault it
// stores nothing and returns the problem, such as "must be a whole number";
// otherwise it returns "".
type Setter[C any] = func(c *C, text string) (problem string)

// Checked returns a setter that stores what parse returns, or returns the problem
// if parse returns false.
func Checked[C, T any](of func(*C) *T, parse func(text string) (T, bool), problem string) Setter[C] {
	return func(c *C, text string) string {
		value, ok := parse(text)
		if !ok {
			return problem
		}
		*of(c) = value
		return ""
	}
}

// String returns a setter that accepts any text.
func String[C any](of func(*C) *string) Setter[C] {
	return func(c *C, text string) string { *of(c) = text; return "" }
}

// OneOf returns a setter that accepts the choices only.
func OneOf[C any](of func(*C) *string, choices ...string) Setter[C] {
	return Checked(of, func(text string) (string, bool) { return text, slices.Contains(choices, text) },
		"must be one of "+strings.Join(choices, ", "))
}

// Integer returns a setter for a whole number of 32 bits.
func Integer[C any](of func(*C) *int64) Setter[C] {
	return Checked(of, ParseInteger(math.MinInt32), "must be a whole number")
}

// Count returns a setter for a whole number between 0 and 2147483647.
func Count[C any](of func(*C) *int64) Setter[C] {
	return Checked(of, ParseInteger(0), "must be a whole number that is not negative")
}

// ParseInteger returns a parser of whole numbers between minimum and 2147483647.
func ParseInteger(minimum int64) func(text string) (int64, bool) {
	return func(text string) (int64, bool) {
		n, err := strconv.ParseInt(text, 10, 32)
		return n, err == nil && n >= minimum
	}
}

// Duration returns a setter for a duration with a unit, of either sign.
func Duration[C any](of func(*C) *time.Duration) Setter[C] {
	return Checked(of, parseDuration(math.MinInt64), "must be a duration with a unit, such as 90s or 1m30s")
}

// NonNegativeDuration returns a setter for a duration of at least 0s. Options that
// kube-controller-manager has, too, accept 0s as it does.
func NonNegativeDuration[C any](of func(*C) *time.Duration) Setter[C] {
	return Checked(of, parseDuration(0), "must be a duration of at least 0s, with a unit, such as 90s or 1m30s")
}

// PositiveDuration returns a setter for a duration above 0s.
func PositiveDuration[C any](of func(*C) *time.Duration) Setter[C] {
	return Checked(of, parseDuration(1), "must be a duration above 0s, with a unit, such as 90s or 1m30s")
}

func parseDuration(minimum time.Duration) func(text string) (time.Duration, bool) {
	return func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= minimum
	}
}

// Rates per second are between these. A slower one happens less than once in 11
// days, a faster one more than once in a microsecond.
const (
	minRate = 1e-6
	maxRate = 1e6

	rateRange = "a number per second between 1e-6 and 1e6, such as 0.1"
)

// Rate returns a setter for a number per second: 0, or between 1e-6 and 1e6.
func Rate[C any](of func(*C) *float64) Setter[C] {
	return Checked(of, parseRate, "must be 0 or "+rateRange)
}

// OptionalRate returns a setter for a [Rate] that may be empty, which it stores
// as -1.
func OptionalRate[C any](of func(*C) *float64) Setter[C] {
	return Checked(of, func(text string) (float64, bool) {
		if text == "" {
			return -1, true
		}
		return parseRate(text)
	}, "must be empty, 0 or "+rateRange)
}

func parseRate(text string) (float64, bool) {
	f, ok := ParseNumber(text)
	return f, ok && (f == 0 || f >= minRate && f <= maxRate)
}

// The limits that client-go substitutes for 0.
const (
	clientQPS   = 5
	clientBurst = 10
)

// ClientQPS returns a setter for the request rate of an API client, in requests per
// second. It stores 5 for 0, as client-go does, and -1 for any negative number:
// no limit.
func ClientQPS[C any](of func(*C) *float64) Setter[C] {
	return Checked(of, func(text string) (float64, bool) {
		if f, err := strconv.ParseFloat(text, 64); err == nil && f < 0 && !math.IsInf(f, -1) {
			return -1, true
		}
		f, ok := parseRate(text)
		if f == 0 {
			f = clientQPS
		}
		return f, ok
	}, "must be negative, 0 or "+rateRange)
}

// ClientBurst returns a setter for the number of requests that an API client
// sends at once. It stores 10 for 0, as client-go does.
func ClientBurst[C any](of func(*C) *int64) Setter[C] {
	return Checked(of, func(text string) (int64, bool) {
		n, ok := ParseInteger(0)(text)
		if n == 0 {
			n = clientBurst
		}
		return n, ok
	}, "must be a whole number that is not negative")
}

// Fraction returns a setter for a number between 0 and 1.
func Fraction[C any](of func(*C) *float64) Setter[C] {
	return Checked(of, func(text string) (float64, bool) {
		f, ok := ParseNumber(text)
		return f, ok && f <= 1
	}, "must be a share between 0 and 1, such as 0.05")
}

// Ratio returns a setter for a number of at least 0. Above 1 it is a fraction that
// is never reached.
func Ratio[C any](of func(*C) *float64) Setter[C] {
	return Checked(of, ParseNumber, "must be a number of at least 0, such as 0.55")
}

// ParseNumber parses a finite number of at least 0.
func ParseNumber(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f >= 0 && !math.IsInf(f, 1)
}

// DNSLabel returns a setter for a name of at most 63 lower case letters, digits
// and hyphens.
func DNSLabel[C any](of func(*C) *string) Setter[C] {
	return Checked(of, parseDNSLabel, dnsLabelProblem)
}

// OptionalDNSLabel returns a setter for a [DNSLabel] that may be empty.
func OptionalDNSLabel[C any](of func(*C) *string) Setter[C] {
	return Checked(of, func(text string) (string, bool) {
		if text == "" {
			return "", true
		}
		return parseDNSLabel(text)
	}, dnsLabelProblem)
}

const dnsLabelProblem = "must be a name of lower case letters, digits and hyphens, at most 63"

func parseDNSLabel(text string) (string, bool) {
	return text, len(validation.IsDNS1123Label(text)) == 0
}

// ListenAddress returns a setter for IP:PORT, or empty for no listener. Host names
// are refused because their address can change.
func ListenAddress[C any](of func(*C) *string) Setter[C] {
	return Checked(of, func(text string) (string, bool) {
		_, err := netip.ParseAddrPort(text)
		return text, text == "" || err == nil
	}, "must be IP:PORT, such as 127.0.0.1:10360, or empty")
}

// maxSocketPath is the longest path of a Unix socket that the kernel accepts, in
// bytes.
const maxSocketPath = 107

// SocketPath returns a setter for the absolute path of a Unix socket, or empty for
// none.
func SocketPath[C any](of func(*C) *string) Setter[C] {
	return Checked(of, func(text string) (string, bool) {
		return text, text == "" || filepath.IsAbs(text) && filepath.Clean(text) == text && len(text) <= maxSocketPath
	}, "must be an absolute path of at most 107 bytes, or empty")
}
