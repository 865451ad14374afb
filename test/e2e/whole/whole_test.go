package whole

import "testing"

// TestWholeNode is one run on one node: each story begins with the state that the previous ones
// left.
func TestWholeNode(t *testing.T) {
	s := raise(t, nil)
	s.ship()
	s.install()
	t.Logf("helm install said:\n%s", s.release.said)
	keeper := s.keeper()
	s.story("disarmed it tells, armed it acts", (*stage).disarmedAndArmed)
	s.arm() // also if a story is run alone
	s.story("disarmed under pressure it stops", (*stage).disarmedUnderPressure)
	s.story("a hog of memory goes", (*stage).memoryHog)
	s.story("memory: by priority, and nobody within his request", (*stage).memoryOrder)
	s.story("processes: by priority", (*stage).pidOrder)
	s.story("a hog of inodes goes", (*stage).inodeHog)
	s.story("images go before pods", (*stage).imagesFirst)
	s.story("finished pods go before others", (*stage).finishedFirst)
	s.story("a hog of the disk goes", (*stage).diskHog)
	s.story("disk: by priority", (*stage).diskOrder)
	s.story("limits of local storage", (*stage).storageLimits)
	s.story("a critical static pod stays", (*stage).criticalStays)
	s.story("soft: a grace for the threshold, one for the pod", (*stage).softEviction)
	s.story("a new agent goes on with the pressure", (*stage).updatedUnderPressure)
	s.story("the agent is dead: the kubelet evicts", (*stage).agentDead)
	s.story("the kubelet is silent: a second opinion", (*stage).kubeletSilent)
	s.story("the node dies and returns", (*stage).nodeDies)
	s.story("the kubelet reports", (*stage).kubeletReports)
	s.do(keeper, "fill 1MiB")
	s.farewell("uninstalled, it leaves nothing", (*stage).uninstalled)
}
