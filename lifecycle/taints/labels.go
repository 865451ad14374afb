package taints

import "plimsoll.dev/plimsoll/lifecycle/model"

// LabelChange sets a node's label to this value, whether it exists or not.
type LabelChange struct{ Key, Value string }

// Labels compares the older labels of operating system and architecture with the stable ones,
// which take precedence. If the stable one is absent, the older one stays. The order is that of
// the keys.
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
