package podstatus

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// standing is the result of the check of a pod before a late report.
type standing uint8

const (
	stands   standing = iota // the status is reported now
	reported                 // it was reported: only the answer was lost
	obsolete                 // the status is no longer true; the event is
	nothing                  // nothing happened: there is nothing to report
	unclear                  // too early to decide
)

// sight is the known state of a pod at the time of a late report.
type sight struct {
	pending *PendingStatus
	pod     *corev1.Pod
	// running are the containers that run now according to the node's runtime. A pod's status may
	// lag behind it by many seconds. asked is false if the runtime could not be queried.
	running []string
	asked   bool
	at      time.Time
}

// dyingTime bounds the time until killed processes are gone.
const dyingTime = 30 * time.Second

// rules determine the result for a late status. The first match counts; without one the status is
// reported.
var rules = []struct {
	matches func(*sight) bool
	then    standing
	why     string
}{
	{(*sight).another, obsolete, "the pod is gone, another one has its name"},
	{(*sight).reported, reported, "the API server has it already"},
	{(*sight).intact, obsolete, "the pod has no mark of that eviction any more, or has not failed"},
	{(*sight).ending, unclear, "containers of the pod still run"},
	{(*sight).dying, unclear, "the containers that were to be killed still run"},
	{(*sight).unkilled, nothing, "its containers run as before: it was never killed"},
	{(*sight).startedSince, obsolete, "a container has started since"},
	{(*sight).endedOtherwise, obsolete, "the pod has ended for another reason"},
}

func (s *sight) classify() (standing, string) {
	for _, r := range rules {
		if r.matches(s) {
			return r.then, r.why
		}
	}
	return stands, ""
}

func (s *sight) another() bool { return string(s.pod.UID) != s.pending.Notice.UID }

// reported reports whether the status was reported. A kubelet may have overwritten phase and reason
// since, but it preserves the conditions.
func (s *sight) reported() bool {
	n, now := &s.pending.Notice, &s.pod.Status
	if now.Phase == corev1.PodFailed && now.Reason == ReasonEvicted && now.Message == n.Message {
		return true
	}
	return !s.pending.Again && slices.ContainsFunc(now.Conditions, func(c corev1.PodCondition) bool {
		ours := c.Type == Evicted || c.Type == corev1.DisruptionTarget // the latter alone, from older agents
		return ours && c.Message == n.Message && stamp(c.LastTransitionTime.Time) == stamp(n.Decided)
	})
}

// intact reports whether a repair has nothing to restore.
func (s *sight) intact() bool {
	if !s.pending.Repair {
		return false
	}
	n, lost := s.lost()
	return !lost || stamp(n.Decided) != stamp(s.pending.Notice.Decided)
}

// lost returns the notice that a repair restores, from the pod's condition. The message of the
// pending status may lack the beginning of a long one, as package apiserver stores it.
func (s *sight) lost() (Notice, bool) { return lostReason(s.pod, s.pending.Notice.Killed, s.at) }

// ending reports whether the state of the running containers is unknown to a repair: its notice may
// name no containers, so that they may be killed ones or new ones.
func (s *sight) ending() bool {
	return s.pending.Repair && len(s.pending.Notice.Killed) == 0 && len(s.running) > 0 && s.at.Sub(s.pending.Notice.Decided) < dyingTime
}

// dying reports whether a kill may have happened and not be over.
func (s *sight) dying() bool {
	return s.unkilled() && s.at.Sub(s.pending.Notice.Decided) < dyingTime
}

// unkilled reports whether the run that enqueued this ended before the kill.
func (s *sight) unkilled() bool {
	return !s.pending.Ended && s.asked && len(s.running) > 0 && !slices.ContainsFunc(s.running, s.unknown)
}

func (s *sight) unknown(id string) bool { return !s.pending.Notice.killed(id) }

// startedSince checks the node's runtime first, then the status of the kubelet.
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

// newer reports whether a state is of a container that was started after the kill. A terminated
// container has its ID in the state. A container reported as running that was not killed is newer.
// But if the runtime was queried, it may be an older one with an unreported end.
func (s *sight) newer(id string, state *corev1.ContainerState) bool {
	n := &s.pending.Notice
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

// startedAfter compares a start with the decision. The API truncates both to whole seconds, so that
// of equal ones either may be the earlier. In doubt the container is newer. In a failed pod, which
// no kubelet restarts, it is older if the killed containers are not known.
func (s *sight) startedAfter(started time.Time) bool {
	since := s.pending.Notice.Decided.Truncate(time.Second)
	if s.pending.Repair && len(s.pending.Notice.Killed) == 0 {
		since = since.Add(time.Second)
	}
	return !started.Before(since)
}

// endedOtherwise reports whether the pod has succeeded, or has failed for another reported reason.
func (s *sight) endedOtherwise() bool {
	now := &s.pod.Status
	return now.Phase == corev1.PodSucceeded || now.Phase == corev1.PodFailed && now.Reason != "" && !s.pending.Repair
}
