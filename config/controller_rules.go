package config

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/fields"
)

// fewestRenewals is how many renewals fall into a grace period: a node is silent
// when all of them were missed. With fewer, one that was lost would be enough.
const fewestRenewals = 3

// frozenConnection is how long a kubelet may need to notice that its connection
// to the API server is dead: 30 s until it asks for a sign of life, 15 s until it
// gives up.
const frozenConnection = 45 * time.Second

// validate notes what is wrong beyond the form of single values.
func (c *Controller) validate(faults *fields.Faults) {
	c.derive()
	c.validatePeriods(faults)
	c.validateElection(faults)
	c.Endpoints.validate(c.Where, faults)
}

// derive puts in what follows from other options.
func (c *Controller) derive() {
	if !c.Given("taintBasedEvictions") {
		c.TaintBasedEvictions = c.TaintEvictions
	}
}

// validatePeriods notes periods that do not go together.
func (c *Controller) validatePeriods(faults *fields.Faults) {
	if c.NodeMonitorPeriod >= c.NodeMonitorGracePeriod {
		field, value := "nodeMonitorPeriod", c.NodeMonitorPeriod
		if !c.Given(field) {
			field, value = "nodeMonitorGracePeriod", c.NodeMonitorGracePeriod
		}
		c.tooShort(faults, field, value, "nodeMonitorPeriod, which is %s, must be below nodeMonitorGracePeriod, which is %s", c.NodeMonitorPeriod, c.NodeMonitorGracePeriod)
	}
	// Where taints decide, the timeout is of no account unless somebody wrote it
	// down and means it.
	if legacy := !c.TaintBasedEvictions; (legacy || c.Given("podEvictionTimeout")) && c.PodEvictionTimeout < c.NodeMonitorGracePeriod {
		c.tooShort(faults, "podEvictionTimeout", c.PodEvictionTimeout, "must be at least nodeMonitorGracePeriod, which is %s: pods would be due before their node is Unknown", c.NodeMonitorGracePeriod)
	}
	if c.NodeMonitorGracePeriod/fewestRenewals < c.NodeRenewInterval {
		c.tooShort(faults, "nodeMonitorGracePeriod", c.NodeMonitorGracePeriod, "must be at least %d times nodeRenewInterval, which is %s, or renewals that are late make a node Unknown", fewestRenewals, c.NodeRenewInterval)
	}
}

// jitter is how much longer than its retry period an election may wait.
const jitter = 1.2

func (c *Controller) validateElection(faults *fields.Faults) {
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

func (c *Controller) tooShort(faults *fields.Faults, field string, value time.Duration, format string, args ...any) {
	faults.Add(c.Where(field), value.String(), format, args...)
}

// Warnings says what is allowed and seldom meant, each with the options that it
// is about.
func (c *Controller) Warnings() (all []string) {
	for _, w := range []struct {
		is   bool
		text string
	}{
		{c.NodeMonitorGracePeriod < frozenConnection, fmt.Sprintf("nodeMonitorGracePeriod is %s: a kubelet may need %s to notice that its connection is dead, so that healthy nodes become Unknown; 50s is the default", c.NodeMonitorGracePeriod, frozenConnection)},
		{c.NodeStartupGracePeriod < c.NodeMonitorGracePeriod, fmt.Sprintf("nodeStartupGracePeriod, %s, is shorter than nodeMonitorGracePeriod, %s: a node has less time for its first report than for any later one", c.NodeStartupGracePeriod, c.NodeMonitorGracePeriod)},
		{c.TaintBasedEvictions && !c.TaintEvictions, "taintBasedEvictions without enableTaintManager: nodes are tainted NoExecute, and nobody evicts their pods"},
		{!c.TaintBasedEvictions && c.TaintEvictions, "enableTaintManager without taintBasedEvictions: pods of dead nodes go by podEvictionTimeout, tolerations count for taints of others only"},
		{c.NodeEvictionRate == 0, "nodeEvictionRate is 0: no node is ever tainted NoExecute, or emptied, in a healthy zone"},
		{!c.LiveLeaseReads && c.StormNodes == 0, "liveLeaseReads is off and stormNodes is 0: a watch that hangs makes every node Unknown"},
		{c.LiveLeaseReads && (c.LiveLeaseReadsPerSecond == 0 || c.LiveLeaseReadsPerSecond >= c.KubeAPIQPS), "liveLeaseReadsPerSecond leaves nothing of kubeAPIQPS for writes while many nodes are silent"},
		{c.SecondOpinion > 0 && c.HeartbeatNamespace == "", "secondOpinion has no heartbeatNamespace to ask the agents in: it never applies"},
		{c.DryRun && c.Mode == Replace, "dryRun holds back everything that mode replace would write: nobody acts if kube-controller-manager's controllers are off"},
		{c.Mode == Replace && !c.LeaderElect, "mode replace without leaderElect: two controllers would act at once, so see to it that there is one"},
	} {
		if w.is {
			all = append(all, w.text)
		}
	}
	return all
}
