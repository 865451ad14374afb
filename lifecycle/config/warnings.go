package config

import "fmt"

// Warnings returns what is allowed and seldom meant, each with the options that it
// is about.
func (c *Controller) Warnings() []string {
	all := c.warnOfPeriods()
	for _, w := range []struct {
		is   bool
		text string
	}{
		{c.TaintBasedEvictions && !c.TaintEvictions, "taintBasedEvictions without enableTaintManager: nodes are tainted NoExecute, and nobody evicts their pods"},
		{!c.TaintBasedEvictions && c.TaintEvictions, "enableTaintManager without taintBasedEvictions: pods of dead nodes go by podEvictionTimeout, tolerations count for taints of others only"},
		{c.NodeEvictionRate == 0, "nodeEvictionRate is 0: no node is ever tainted NoExecute, or emptied, in a healthy zone"},
		{c.UnhealthyZoneThreshold > 1, fmt.Sprintf("unhealthyZoneThreshold is %g: no zone is ever partially disrupted, so that a large outage is evicted at nodeEvictionRate", c.UnhealthyZoneThreshold)},
		{!c.LiveLeaseReads && c.StormNodes == 0, "liveLeaseReads is off and stormNodes is 0: a watch that hangs makes every node Unknown"},
		{c.KubeAPIQPS < 0, "kubeAPIQPS is negative: only the number of workers bounds the requests to the API server"},
		{c.LiveLeaseReads && c.KubeAPIQPS > 0 && (c.LiveLeaseReadsPerSecond == 0 || c.LiveLeaseReadsPerSecond >= c.KubeAPIQPS), "liveLeaseReadsPerSecond leaves nothing of kubeAPIQPS for writes while many nodes are silent"},
		{c.SecondOpinion > 0 && c.HeartbeatNamespace == "", "secondOpinion has no heartbeatNamespace to ask the agents in: it never applies"},
		{c.DryRun && c.Mode == Replace, "dryRun holds back everything that mode replace would write: nobody acts if kube-controller-manager's controllers are off"},
		{c.Mode == Replace && !c.LeaderElect, "mode replace without leaderElect: two controllers would act at once, so see to it that there is one"},
	} {
		if w.is {
			all = append(all, w.text)
		}
	}
	return append(all, c.warnOfGates()...)
}

// warnOfPeriods returns the warnings about periods that do not go together.
// kube-controller-manager accepts them, too. Of several about the grace period the
// most serious one is returned.
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
