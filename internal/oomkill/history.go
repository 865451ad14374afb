package oomkill

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

const (
	// maxAge is the age from which on a reading explains nothing about a kill.
	maxAge = 15 * time.Second
	// MaxReadingTime is the maximum duration of a reading, and the minimum time between its beginning and
	// a kill: a later one may have ended after the kill.
	MaxReadingTime = 100 * time.Millisecond
	// spacing is the minimum time between stored readings, except for the last one.
	spacing = 500 * time.Millisecond
	// maxReadings bounds the stored readings.
	maxReadings = int(maxAge/spacing) + 2
)

// History stores readings of the held memory, oldest first. The zero value is empty.
type History struct{ readings []signals.Holdings }

// Note stores a copy of a reading, unless it is older than the last one. It allocates only while the
// number of stored readings or of pods grows.
func (h *History) Note(reading *signals.Holdings) {
	n := len(h.readings)
	switch {
	case n > 0 && !reading.At.After(h.readings[n-1].At):
		return
	case n > 1 && reading.At.Sub(h.readings[n-2].At) < spacing: // replaces the last one
	case n < maxReadings:
		h.readings = append(h.readings, signals.Holdings{})
	default:
		oldest := h.readings[0]
		copy(h.readings, h.readings[1:])
		h.readings[n-1] = oldest
	}
	copyInto(&h.readings[len(h.readings)-1], reading)
}

// copyInto copies a reading into a stored one, with the memory of its lists.
func copyInto(stored, reading *signals.Holdings) {
	pods := stored.Pods[:0]
	for i := range reading.Pods {
		if len(pods) == cap(pods) {
			pods = append(pods, signals.PodHoldings{})
		} else {
			pods = pods[:len(pods)+1]
		}
		pod, from := &pods[len(pods)-1], &reading.Pods[i]
		containers := append(pod.Containers[:0], from.Containers...)
		if *pod = *from; from.Containers != nil { // nil: not read
			pod.Containers = containers
		}
	}
	totals := append(stored.Totals[:0], reading.Totals...)
	*stored = *reading
	stored.Pods, stored.Totals = pods, totals
}

// Before returns the readings before a kill at a time. They are valid until the next Note.
func (h *History) Before(at time.Time) []signals.Holdings {
	from, to := 0, len(h.readings)
	for from < to && at.Sub(h.readings[from].At) > maxAge {
		from++
	}
	for to > from && at.Sub(h.readings[to-1].At) < MaxReadingTime {
		to--
	}
	return h.readings[from:to]
}
