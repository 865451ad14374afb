package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
)

// Pressure is the "some" line of a pressure file (memory.pressure, /proc/pressure/memory): the
// time in which at least one task waited.
type Pressure struct {
	// Avg10 is the share of the last 10 s, in hundredths of a percent. The kernel updates it
	// every 2 s.
	Avg10 uint64
	// Total is the sum since the creation of the cgroup, as of this read.
	Total time.Duration
}

// ParsePressure parses a pressure file:
//
//	some avg10=0.00 avg60=0.12 avg300=0.05 total=2022017
//	full avg10=0.00 avg60=0.03 avg300=0.01 total=722809
//
// Returns an error if the "some" line or one of its fields is missing or malformed.
func ParsePressure(text []byte) (Pressure, error) { return parsePressure(text, someLine) }

// parsePressure parses the line of a pressure file with the given beginning.
func parsePressure(text, beginning []byte) (Pressure, error) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, newline)
		if rest, ok := bytes.CutPrefix(line, beginning); ok {
			return parsePressureLine(rest)
		}
	}
	return Pressure{}, fmt.Errorf("the pressure file has no line %q", bytes.TrimSpace(beginning))
}

func parsePressureLine(fields []byte) (p Pressure, err error) {
	var seen [2]bool
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, space)
		key, value, _ := bytes.Cut(field, equals)
		ok := true
		switch string(key) {
		case "avg10":
			p.Avg10, ok = hundredths(value)
			seen[0] = ok
		case "total":
			var micros uint64
			micros, ok = number(value)
			p.Total = time.Duration(min(micros, math.MaxInt64/1000)) * time.Microsecond
			seen[1] = ok
		}
		if !ok {
			return Pressure{}, fmt.Errorf("field %.40q of the pressure file is no number", field)
		}
	}
	if !seen[0] || !seen[1] {
		return Pressure{}, errors.New("a line of the pressure file lacks avg10 or total")
	}
	return p, nil
}

// hundredths parses a number with two decimals, such as 12.34.
func hundredths(text []byte) (uint64, bool) {
	whole, part, _ := bytes.Cut(text, point)
	a, ok := number(whole)
	b, alsoOK := number(part)
	return a*100 + b, ok && alsoOK && len(part) == 2 && a <= 100
}

var (
	someLine = []byte("some ")
	fullLine = []byte("full ")
	equals   = []byte("=")
	point    = []byte(".")
)
