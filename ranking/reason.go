package ranking

import (
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Reason describes why a pod has its place.
func (k *Key) Reason() string {
	text := k.measured() + fmt.Sprintf(", priority %d", k.Priority)
	if k.Incomplete != "" {
		text += ", measured incompletely (" + k.Incomplete + ")"
	}
	if k.EvictionPriority != 0 {
		text += fmt.Sprintf(", eviction priority %d", k.EvictionPriority)
	}
	if k.Last {
		text += ", asked to go last"
	}
	if k.Protection != signals.Unprotected {
		text += ", passed over: " + k.Protection.String()
	}
	return text
}

func (k *Key) measured() string {
	if k.NoStats {
		return "nothing measured"
	}
	used := signals.Format(k.Usage, k.unit())
	if k.Incomplete != "" {
		used = "at least " + used
	}
	switch {
	case k.Order == ByInodes:
		return "uses " + used + " inodes"
	case k.Order == ByPIDs && k.Tasks > k.Usage:
		return "runs " + used + " processes with " + signals.Format(k.Tasks, signals.UnitPIDs) + " threads"
	case k.Order == ByPIDs:
		return "runs " + used + " processes"
	case k.Exceeds && k.Usage <= k.Request:
		return fmt.Sprintf("uses %s, assumed above its request of %s", used, signals.Format(k.Request, k.unit()))
	case k.Exceeds:
		return fmt.Sprintf("uses %s, %s above its request", used, signals.Format(k.over(), k.unit()))
	}
	return fmt.Sprintf("uses %s, within its request of %s", used, signals.Format(k.Request, k.unit()))
}

func (k *Key) unit() signals.Unit {
	switch k.Order {
	case ByInodes:
		return signals.UnitInodes
	case ByPIDs:
		return signals.UnitPIDs
	}
	return signals.UnitBytes
}
