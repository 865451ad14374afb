package config

import (
	"fmt"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// gates are those feature gates of Kubernetes by which its node controllers differ, or
// differed: each with what replaces it here. An empty text: it is always on.
var gates = map[string]string{
	"NodeControllerLeaseCircuitBreaker":  "liveLeaseReads and stormNodes decide",
	"NodeDisruptionExclusion":            "",
	"NodeLease":                          "",
	"SeparateTaintEvictionController":    "",
	"TaintBasedEvictions":                "taintBasedEvictions decides",
	"TaintNodesByCondition":              "",
	"TaintTolerationComparisonOperators": "",
	"LegacyNodeRoleBehavior":             "the label node.kubernetes.io/exclude-disruption decides",
}

const off = "false"

// validateGates notes gates that are neither true nor false.
func (c *Controller) validateGates(faults *strictyaml.Faults) {
	for _, g := range c.FeatureGates.Settings {
		if g.Text != "true" && g.Text != off {
			faults.Add(g.Where, g.Text, "must be true or false")
		}
	}
}

// warnOfGates returns the gates that have no effect and that an operator may count on.
func (c *Controller) warnOfGates() (all []string) {
	for _, g := range c.FeatureGates.Settings {
		switch instead, known := gates[g.Key]; {
		case !known:
			all = append(all, fmt.Sprintf("featureGates: %s is not known here and has no effect", g.Key))
		case instead != "":
			all = append(all, fmt.Sprintf("featureGates: %s has no effect: %s", g.Key, instead))
		case g.Text == off:
			all = append(all, fmt.Sprintf("featureGates: %s cannot be switched off: it has no effect", g.Key))
		}
	}
	return all
}
