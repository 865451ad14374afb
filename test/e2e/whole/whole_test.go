package whole

import "testing"

// TestNode_RunsScenariosInOrder is one run on one node: each scenario begins with the state of the previous ones.
func TestNode_RunsScenariosInOrder(t *testing.T) {
	s := newEnv(t, nil)
	s.buildImage()
	s.buildClient()
	s.install()
	t.Logf("output of helm install:\n%s", s.release.output)
	idleCritical := s.idleCritical()
	s.scenario("disarmed and armed", (*env).disarmedAndArmed)
	s.arm() // also if a scenario is run alone
	s.scenario("client reaches agent", (*env).clientReachesAgent)
	s.scenario("client operates", (*env).clientOperates)
	s.scenario("disarmed under pressure", (*env).disarmedUnderPressure)
	s.scenario("memory", (*env).memoryHog)
	s.scenario("memory by priority", (*env).memoryOrder)
	s.scenario("PIDs by priority", (*env).pidOrder)
	s.scenario("inodes", (*env).inodeHog)
	s.scenario("images before pods", (*env).imagesFirst)
	s.scenario("finished pods before others", (*env).finishedFirst)
	s.scenario("disk", (*env).diskHog)
	s.scenario("disk by priority", (*env).diskOrder)
	s.scenario("limits of local storage", (*env).storageLimits)
	s.scenario("critical static pod", (*env).criticalStays)
	s.scenario("soft eviction", (*env).softEviction)
	s.scenario("agent update under pressure", (*env).updatedUnderPressure)
	s.scenario("dead agent, evicting kubelet", (*env).agentDead)
	s.scenario("silent kubelet with second opinion", (*env).kubeletSilent)
	s.scenario("lost node that returns", (*env).nodeDies)
	s.scenario("reporting kubelet", (*env).kubeletReports)
	s.do(idleCritical, "fill 1MiB")
	s.lastScenario("uninstall", (*env).uninstalled)
}
