package app

import (
	"fmt"
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
		text += [...]string{"; held by ", ", "}[min(i, 1)] + c.Name + mountText(&c) + " " + amountText(&c, unit)
	}
	return text
}

// mountText names the pod that mounts a directory.
func mountText(c *signals.Consumer) string {
	switch {
	case c.Pod == "":
		return ""
	case c.Pods > 1:
		return fmt.Sprintf(" (mounted by %s and %d more)", c.Pod, c.Pods-1)
	}
	return " (mounted by " + c.Pod + ")"
}

// amountText formats the amount of a consumer. Bytes are rounded down to 1Mi.
func amountText(c *signals.Consumer, unit signals.Unit) string {
	amount, names := c.Amount, [...]string{signals.UnitInodes: " inodes", signals.UnitPIDs: " PIDs"}
	if unit == signals.UnitBytes && amount >= 1<<20 {
		amount -= amount % (1 << 20)
	}
	text := signals.Format(amount, unit) + names[unit]
	if c.Incomplete != "" {
		return "at least " + text
	}
	return text
}
