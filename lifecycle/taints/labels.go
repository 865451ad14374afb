package taints

import "plimsoll.dev/plimsoll/lifecycle/model"

// A LabelChange gives a node's label this value, whether it is there or not.
type LabelChange struct{ Key, Value string }

// Labels compares the older names of operating system and architecture with the
// stable ones, which win. Where the stable one is absent, nothing is known, and
// the older stays. The order is that of the keys.
func Labels(l *model.Labels) (changes []LabelChange) {
	for _, pair := range [...]struct {
		old    string
		is, to model.Label
	}{
		{"beta.kubernetes.io/arch", l.OldArch, l.Arch},
		{"beta.kubernetes.io/os", l.OldOS, l.OS},
	} {
		if pair.to.Is && pair.is != pair.to {
			changes = append(changes, LabelChange{pair.old, pair.to.Value})
		}
	}
	return changes
}
