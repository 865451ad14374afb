package config

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// fewestRenewals is the number of lease renewals that a grace period should span.
// With fewer, one lost renewal makes a healthy node Unknown.
const fewestRenewals = 3

// frozenConnection is the time in which a kubelet detects that its connection to the
// API server is dead: 30 s until it sends a ping, 15 s until the ping times out.
const frozenConnection = 45 * time.Second

// validate derives values from other options and adds the faults of options that do
// not go together.
func (c *Controller) validate(faults *strictyaml.Faults) {
	c.derive()
	c.validateElection(faults)
	c.Endpoints.Validate(c.Where, faults)
	c.validateGates(faults)
}

// derive sets the options whose default depends on another option.
func (c *Controller) derive() {
	if !c.Given("taintBasedEvictions") {
		c.TaintBasedEvictions = c.TaintEvictions
	}
}

// jitter is the factor by which the interval between attempts to acquire the lease
// may exceed the retry period.
const jitter = 1.2

func (c *Controller) validateElection(faults *strictyaml.Faults) {
	if !c.LeaderElect {
		return
	}
	if c.RenewDeadline >= c.LeaseDuration {
		c.tooShort(faults, "leaderElectLeaseDuration", c.LeaseDuration, "must be above leaderElectRenewDeadline, which is %s, or two could lead at once", c.RenewDeadline)
	}
	if float64(c.RenewDeadline) <= jitter*float64(c.RetryPeriod) {
		c.tooShort(faults, "leaderElectRenewDeadline", c.RenewDeadline, "must be above %.1f times leaderElectRetryPeriod, which is %s, or there is no second try", jitter, c.RetryPeriod)
	}
}

func (c *Controller) tooShort(faults *strictyaml.Faults, field string, value time.Duration, format string, args ...any) {
	faults.Add(c.Where(field), value.String(), format, args...)
}

// Warnings returns the settings that are allowed but rarely intended, one sentence
// each, with the options concerned. The configuration must be valid.
func (c *Controller) Warnings() []string {
	all := c.warnOfPeriods()
	for _, w := range []struct {
		is   bool
		text string
	}{
		{c.TaintBasedEvictions && !c.TaintEvictions, "taintBasedEvictions without enableTaintManager: nodes are tainted NoExecute, and their pods are not evicted"},
		{!c.TaintBasedEvictions && c.TaintEvictions, "enableTaintManager without taintBasedEvictions: pods of dead nodes go by podEvictionTimeout, tolerations count for taints of others only"},
		{c.NodeEvictionRate == 0, "nodeEvictionRate is 0: no node is ever tainted NoExecute, or emptied, in a healthy zone"},
		{c.UnhealthyZoneThreshold > 1, fmt.Sprintf("unhealthyZoneThreshold is %g: no zone is ever partially disrupted, so that a large outage is evicted at nodeEvictionRate", c.UnhealthyZoneThreshold)},
		{!c.LiveLeaseReads && c.MassFailureMinNodes == 0, "liveLeaseReads is off and massFailureMinNodes is 0: a watch that hangs makes every node Unknown"},
		{c.KubeAPIQPS < 0, "kubeAPIQPS is negative: only the number of workers bounds the requests to the API server"},
		{c.LiveLeaseReads && c.KubeAPIQPS > 0 && (c.LiveLeaseReadsPerSecond == 0 || c.LiveLeaseReadsPerSecond >= c.KubeAPIQPS), "liveLeaseReadsPerSecond leaves nothing of kubeAPIQPS for writes while many nodes are silent"},
		{c.AgentAliveGrace > 0 && c.HeartbeatNamespace == "", "agentAliveGrace needs heartbeatNamespace: without it agentAliveGrace never applies"},
		{c.DryRun && c.Mode == Replace, "dryRun suppresses every write of mode replace: no controller acts if those of kube-controller-manager are off"},
		{c.Mode == Replace && !c.LeaderElect, "mode replace without leaderElect: two controllers would act at once, so see to it that there is one"},
	} {
		if w.is {
			all = append(all, w.text)
		}
	}
	return append(all, c.warnOfGates()...)
}

// warnOfPeriods returns the warnings about periods that do not go together, which
// kube-controller-manager accepts, too. It returns the most serious one about the
// grace period only.
func (c *Controller) warnOfPeriods() (all []string) {
	grace, renewals := c.NodeMonitorGracePeriod, fewestRenewals*c.NodeRenewInterval
	switch {
	case grace == 0:
		all = append(all, "nodeMonitorGracePeriod is 0s: every node is Unknown as soon as it has reported")
	case grace < renewals:
		all = append(all, fmt.Sprintf("nodeMonitorGracePeriod is %s, less than %d times nodeRenewInterval, which is %s: renewals that are late or lost make healthy nodes Unknown", grace, fewestRenewals, c.NodeRenewInterval))
	case grace < frozenConnection:
		all = append(all, fmt.Sprintf("nodeMonitorGracePeriod is %s: a kubelet may need %s to notice that its connection is dead, so that healthy nodes become Unknown; 50s is the default", grace, frozenConnection))
	}
	if c.NodeStartupGracePeriod < grace {
		all = append(all, fmt.Sprintf("nodeStartupGracePeriod, %s, is shorter than nodeMonitorGracePeriod, %s: a node has less time for its first report than for any later one", c.NodeStartupGracePeriod, grace))
	}
	if legacy := !c.TaintBasedEvictions; (legacy || c.Given("podEvictionTimeout")) && c.PodEvictionTimeout < grace {
		all = append(all, fmt.Sprintf("podEvictionTimeout, %s, is shorter than nodeMonitorGracePeriod, %s: pods are due as soon as their node is Unknown", c.PodEvictionTimeout, grace))
	}
	return all
}

// gates maps the feature gates that change, or changed, the node controllers of
// Kubernetes to their replacement here. An empty text means that the feature is always
// on.
var gates = map[string]string{
	"NodeControllerLeaseCircuitBreaker":  "liveLeaseReads and massFailureMinNodes decide",
	"NodeDisruptionExclusion":            "",
	"NodeLease":                          "",
	"SeparateTaintEvictionController":    "",
	"TaintBasedEvictions":                "taintBasedEvictions decides",
	"TaintNodesByCondition":              "",
	"TaintTolerationComparisonOperators": "",
	"LegacyNodeRoleBehavior":             "the label node.kubernetes.io/exclude-disruption decides",
}

const off = "false"

// validateGates adds a fault for each gate that is neither true nor false.
func (c *Controller) validateGates(faults *strictyaml.Faults) {
	for _, g := range c.FeatureGates.Settings {
		if g.Text != "true" && g.Text != off {
			faults.Add(g.Where, g.Text, "must be true or false")
		}
	}
}

// warnOfGates returns a warning for each gate that has no effect although its value
// suggests one.
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
