package ranking

import (
	"fmt"

	"plimsoll.dev/plimsoll/signal"
)

// Reason says in words why a pod stands where it stands.
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
	if k.Protection != signal.Unprotected {
		text += ", passed over: " + k.Protection.String()
	}
	return text
}

func (k *Key) measured() string {
	if k.NoStats {
		return "nothing measured"
	}
	used := signal.Format(k.Usage, k.unit())
	if k.Incomplete != "" {
		used = "at least " + used
	}
	switch {
	case k.Order == ByInodes:
		return "uses " + used + " inodes"
	case k.Order == ByPIDs:
		return "runs " + used + " processes"
	case k.Exceeds && k.Usage <= k.Request:
		return fmt.Sprintf("uses %s, assumed above its request of %s", used, signal.Format(k.Request, k.unit()))
	case k.Exceeds:
		return fmt.Sprintf("uses %s, %s above its request", used, signal.Format(k.over(), k.unit()))
	}
	return fmt.Sprintf("uses %s, within its request of %s", used, signal.Format(k.Request, k.unit()))
}

func (k *Key) unit() signal.Unit {
	switch k.Order {
	case ByInodes:
		return signal.UnitInodes
	case ByPIDs:
		return signal.UnitPIDs
	}
	return signal.UnitBytes
}
