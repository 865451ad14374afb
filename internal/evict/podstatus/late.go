package podstatus

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A standing is what a late look at the pod makes of a debt.
type standing uint8

const (
	stands  standing = iota // the status is told now
	told                    // it was told: the answer did not reach us
	lapsed                  // it would not be true any more; the event is
	nothing                 // nothing happened that could be told
	unclear                 // too early to say
)

// A sight is what is known of the pod when its status is to be told late.
type sight struct {
	debt *PendingStatus
	pod  *corev1.Pod
	// running are the containers that the node's own runtime sees running now; a
	// pod's status may be many seconds behind it. Asked is false if nobody could
	// be asked.
	running []string
	asked   bool
	at      time.Time
}

// dyingTime is how long killed processes may take to be gone.
const dyingTime = 30 * time.Second

// rules judge a late status. The first that holds counts; if none does, the
// debt stands.
var rules = []struct {
	holds func(*sight) bool
	then  standing
	why   string
}{
	{(*sight).another, lapsed, "the pod is gone, another one has its name"},
	{(*sight).told, told, "it stands there already"},
	{(*sight).whole, lapsed, "the pod has no mark of that eviction any more, or has not failed"},
	{(*sight).ending, unclear, "containers of the pod still run"},
	{(*sight).dying, unclear, "the containers that were to be killed still run"},
	{(*sight).unkilled, nothing, "its containers run as before: it was never killed"},
	{(*sight).startedSince, lapsed, "a container has started since"},
	{(*sight).endedOtherwise, lapsed, "the pod has ended for another reason"},
}

func (s *sight) judge() (standing, string) {
	for _, r := range rules {
		if r.holds(s) {
			return r.then, r.why
		}
	}
	return stands, ""
}

func (s *sight) another() bool { return string(s.pod.UID) != s.debt.Notice.UID }

// told: a kubelet may have undone phase and reason by now, but it keeps the
// conditions.
func (s *sight) told() bool {
	n, now := &s.debt.Notice, &s.pod.Status
	if now.Phase == corev1.PodFailed && now.Reason == ReasonEvicted && now.Message == n.Message {
		return true
	}
	return !s.debt.Again && slices.ContainsFunc(now.Conditions, func(c corev1.PodCondition) bool {
		ours := c.Type == Evicted || c.Type == corev1.DisruptionTarget // the latter alone, from older agents
		return ours && c.Message == n.Message && stamp(c.LastTransitionTime.Time) == stamp(n.Decided)
	})
}

// whole: a repair has nothing to restore.
func (s *sight) whole() bool {
	if !s.debt.Repair {
		return false
	}
	n, lost := s.lost()
	return !lost || stamp(n.Decided) != stamp(s.debt.Notice.Decided)
}

// lost is what a repair restores, by the pod's mark. The message of the debt may lack
// the beginning of a long one, as package apiserver has it.
func (s *sight) lost() (Notice, bool) { return lostReason(s.pod, s.debt.Notice.Killed, s.at) }

// ending: whether these containers were killed or started is not known yet to a
// repair, whose notice may name none.
func (s *sight) ending() bool {
	return s.debt.Repair && len(s.debt.Notice.Killed) == 0 && len(s.running) > 0 && s.at.Sub(s.debt.Notice.Decided) < dyingTime
}

// dying: there may have been a kill, and it may not be over.
func (s *sight) dying() bool {
	return s.unkilled() && s.at.Sub(s.debt.Notice.Decided) < dyingTime
}

// unkilled: whoever owed this ended before the kill.
func (s *sight) unkilled() bool {
	return !s.debt.Ended && s.asked && len(s.running) > 0 && !slices.ContainsFunc(s.running, s.unknown)
}

func (s *sight) unknown(id string) bool { return !s.debt.Notice.killed(id) }

// startedSince asks the node first, then what the kubelet has reported.
func (s *sight) startedSince() bool {
	if slices.ContainsFunc(s.running, s.unknown) {
		return true
	}
	now := &s.pod.Status
	for _, list := range [][]corev1.ContainerStatus{now.InitContainerStatuses, now.ContainerStatuses, now.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			if s.newer(c.ContainerID, &c.State) || s.newer("", &c.LastTerminationState) {
				return true
			}
		}
	}
	return false
}

// newer reports whether a state is of a container that was started after the
// kill. One that has ended by now tells its ID itself. One that is said to run
// and was not killed is newer; but where the node was asked, it may as well be
// an older one of which the kubelet has not told the end.
func (s *sight) newer(id string, state *corev1.ContainerState) bool {
	n := &s.debt.Notice
	switch {
	case state.Running != nil && n.killed(id):
		return false
	case state.Running != nil:
		return len(n.Killed) > 0 && !s.asked || s.startedAfter(state.Running.StartedAt.Time)
	case state.Terminated != nil:
		return !n.killed(state.Terminated.ContainerID) && s.startedAfter(state.Terminated.StartedAt.Time)
	}
	return false
}

// startedAfter compares a start with the decision. The API has cut both to whole
// seconds, so that of equal ones either may be the earlier. In doubt the container is
// newer; but in a pod that has failed, which no kubelet starts again, it is older
// where the containers that were killed are not known.
func (s *sight) startedAfter(started time.Time) bool {
	since := s.debt.Notice.Decided.Truncate(time.Second)
	if s.debt.Repair && len(s.debt.Notice.Killed) == 0 {
		since = since.Add(time.Second)
	}
	return !started.Before(since)
}

// endedOtherwise: somebody else has said what the pod died of, or it succeeded.
func (s *sight) endedOtherwise() bool {
	now := &s.pod.Status
	return now.Phase == corev1.PodSucceeded || now.Phase == corev1.PodFailed && now.Reason != "" && !s.debt.Repair
}
