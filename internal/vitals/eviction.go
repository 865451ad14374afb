package vitals

import (
	"strings"
	"time"
)

// Eviction is the last eviction of an agent. The zero value means that there is none.
type Eviction struct {
	Time  time.Time
	Pod   string // namespace/name
	Cause string // the signal, or the local-storage limit
}

// maxEviction bounds a parsed text: a time, the names of a namespace and a pod, and a cause.
const maxEviction = 512

// String returns the eviction as "TIME NAMESPACE/NAME CAUSE", with the time of RFC 3339, and an
// empty text if there is none.
func (e Eviction) String() string {
	if e.Time.IsZero() {
		return ""
	}
	return e.Time.UTC().Format(time.RFC3339) + " " + e.Pod + " " + e.Cause
}

// ParseEviction returns the eviction of a text. ok is false if the text has another form.
func ParseEviction(text string) (e Eviction, ok bool) {
	if len(text) > maxEviction {
		return Eviction{}, false
	}
	parts := strings.Split(text, " ")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return Eviction{}, false
	}
	at, err := time.Parse(time.RFC3339, parts[0])
	if err != nil || at.IsZero() {
		return Eviction{}, false
	}
	return Eviction{Time: at, Pod: parts[1], Cause: parts[2]}, true
}
