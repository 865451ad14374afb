package app

import (
	"strings"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/signals"
)

const (
	// maxNamed is the number of consumers in an event.
	maxNamed = 3
	// maxEventText is the maximum length of an event's message in bytes, as for events.k8s.io.
	maxEventText = 1024
)

// eventText describes a decision with its first consumers.
func eventText(d *agent.Decision) string {
	text := d.Reason + consumersText(d.Signal, d.Consumers)
	if len(d.Unmeasured) > 0 {
		text += "; not measured: " + strings.Join(d.Unmeasured, "; ")
	}
	if len(text) > maxEventText {
		text = strings.ToValidUTF8(text[:maxEventText-3], "") + "..."
	}
	return text
}

// consumersText describes the first consumers of a signal.
func consumersText(signal string, consumers []signals.Consumer) (text string) {
	s, err := signals.Parse(signal)
	if err != nil {
		return ""
	}
	unit := s.Definition().Unit
	for i, c := range consumers[:min(len(consumers), maxNamed)] {
		text += [...]string{"; held by ", ", "}[min(i, 1)] + c.Text(unit)
	}
	return text
}
