package recordingcmd

import (
	"fmt"
	"time"
)

// parseTime returns the begin and the end of a time, zero for empty texts. Returns an error if the flags are invalid.
func parseTime(begin, end string, now time.Time) (from, to time.Time, err error) {
	if from, err = parseMoment("--begin", begin, now); err != nil {
		return from, to, err
	}
	if to, err = parseMoment("--end", end, now); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return from, to, fmt.Errorf("--end: %q: is before --begin, which is %s", end, Moment(from))
	}
	return from, to, nil
}

// parseMoment returns a time given by itself or as a duration before now; zero for an empty text.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%s: %q: must be a time such as 2026-03-01T12:00:00Z, or a duration before now, such as 15m", flag, text)
}
