package vitals

import (
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Reading is an observed signal with one of its thresholds.
type Reading struct {
	Signal    signals.Signal
	Known     bool // false: the signal could not be observed, and has no amounts
	Available signals.Amount
	Threshold signals.Amount
	Soft      bool
}

// Below reports whether the threshold is met. An unknown signal meets none.
func (r *Reading) Below() bool { return r.Known && r.Available < r.Threshold }

const (
	// MaxReadings is the maximum number of readings: a hard and a soft threshold of each signal.
	MaxReadings = 2 * signals.Count
	// maxText bounds a parsed text. The longest entry has 74 bytes, its comma included.
	maxText = MaxReadings * 80

	unknown = "unknown"
	soft    = "soft"
)

// FormatReadings returns readings as one text: "SIGNAL=AVAILABLE/THRESHOLD", followed by "/soft" for
// a soft threshold, or "SIGNAL=unknown", separated by commas. Amounts are in the unit of the signal.
func FormatReadings(readings []Reading) string {
	var b []byte
	for i := range readings {
		r := &readings[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, r.Signal.String()...), '=')
		if !r.Known {
			b = append(b, unknown...)
			continue
		}
		b = append(strconv.AppendInt(b, int64(r.Available), 10), '/')
		b = strconv.AppendInt(b, int64(r.Threshold), 10)
		if r.Soft {
			b = append(b, "/"+soft...)
		}
	}
	return string(b)
}

// ParseReadings returns the readings of a text, without entries that cannot be parsed.
func ParseReadings(text string) (readings []Reading) {
	if len(text) > maxText {
		return nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		if r, ok := parseReading(entry); ok && len(readings) < MaxReadings {
			readings = append(readings, r)
		}
	}
	return readings
}

func parseReading(entry string) (r Reading, ok bool) {
	name, value, _ := strings.Cut(entry, "=")
	s, err := signals.Parse(name)
	if err != nil {
		return r, false
	}
	r.Signal = s
	if value == unknown {
		return r, true
	}
	parts := strings.Split(value, "/")
	switch {
	case len(parts) == 2:
	case len(parts) == 3 && parts[2] == soft:
		r.Soft = true
	default:
		return r, false
	}
	available, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return r, false
	}
	threshold, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || threshold < 0 {
		return r, false
	}
	r.Known, r.Available, r.Threshold = true, signals.Amount(available), signals.Amount(threshold)
	return r, true
}
