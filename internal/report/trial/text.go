package trial

import (
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the texts of a record, in bytes.
const (
	maxName = 320 // namespace/name has at most 317
	maxText = 200
)

// printableName returns a name of a record without characters that are not printed.
func printableName(name string) string { return signals.PrintableText(name, maxName) }

func printable(text string) string { return signals.PrintableText(strings.TrimSpace(text), maxText) }

// uidOf returns a UID by which a pod is found again. One longer than any of Kubernetes is cut.
func uidOf(uid string) string {
	if len(uid) <= maxText {
		return uid
	}
	return strings.Clone(uid[:maxText])
}

// unknown stands for what is not recorded.
const unknown = "unknown"
