package api

import (
	"strconv"
	"time"
)

// maxName is the maximum length of an object's name.
const maxName = 253

// EventName returns the name of an event about an object. Two events at one time of one process
// differ in their number.
func EventName(about string, at time.Time, number uint64) string {
	end := "." + strconv.FormatInt(at.UnixNano(), 16) + "." + strconv.FormatUint(number, 16)
	return about[:min(len(about), maxName-len(end))] + end
}
