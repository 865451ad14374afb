package podstatus

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ended(id string, started time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ContainerID: "containerd://" + id, ExitCode: 137, StartedAt: metav1.NewTime(started.Truncate(time.Second)),
	}}
}

var waitingToRestart = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}

// containers replaces the kubelet's status of the only container.
func containers(states ...corev1.ContainerState) func(*sight) {
	return func(s *sight) {
		c := &s.pod.Status.ContainerStatuses[0]
		c.State, c.ContainerID = states[0], ""
		if r := states[0].Terminated; r != nil {
			c.ContainerID = r.ContainerID
		}
		if len(states) > 1 {
			c.LastTerminationState = states[1]
		}
	}
}

func phase(p corev1.PodPhase, reason, message string) func(*sight) {
	return func(s *sight) { s.pod.Status.Phase, s.pod.Status.Reason, s.pod.Status.Message = p, reason, message }
}

func onNode(ids ...string) func(*sight) {
	return func(s *sight) { s.asked, s.running = true, ids }
}

func unconfirmed(s *sight) { s.pending.Ended = false }

func noIDs(s *sight) { s.pending.Notice.Killed = nil }

func restarted(s *sight) {
	s.pod.Status.ContainerStatuses[0] = runs("id-new", decided.Add(2*time.Second))
}

var before, after = decided.Add(-time.Hour), decided.Add(3 * time.Second)

func disruption(message string, at time.Time) func(*sight) {
	return marked(corev1.DisruptionTarget, message, at)
}

func marked(kind corev1.PodConditionType, message string, at time.Time) func(*sight) {
	return func(s *sight) {
		s.pod.Status.Conditions = append(s.pod.Status.Conditions, corev1.PodCondition{Type: kind,
			Status: corev1.ConditionTrue, Message: message, LastTransitionTime: metav1.NewTime(at)})
	}
}

func sidecar(s *sight) {
	s.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{runs("id-sidecar", after)}
}

func setup(s *sight) {
	s.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{ContainerID: "containerd://id-setup", State: ended("id-setup", before)}}
}

func debugged(s *sight) {
	s.pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{runs("id-debug", after)}
}

func TestSight_DeterminesStanding(t *testing.T) {
	type changes = []func(*sight)
	for _, tc := range []struct {
		name string
		with changes
		want standing
	}{
		{"end not in the status", nil, stands},
		{"end in the status", changes{containers(ended("id-p", before))}, stands},
		{"restart pending", changes{containers(waitingToRestart, ended("id-p", before))}, stands},
		{"failed, restartPolicy Never", changes{containers(ended("id-p", before)), phase(corev1.PodFailed, "", "")}, stands},
		{"init container before", changes{setup}, stands},
		{"no container started", changes{containers(corev1.ContainerState{})}, stands},

		{"restarted", changes{restarted}, obsolete},
		{"sidecar restarted", changes{sidecar}, obsolete},
		{"debug container", changes{debugged}, obsolete},
		{"restarted and ended", changes{containers(ended("id-new", after))}, obsolete},
		{"restarted, ended, waiting", changes{containers(waitingToRestart, ended("id-new", after))}, obsolete},
		{"restarted, known to the runtime only", changes{onNode("id-new")}, obsolete},
		{"partly restarted, known to the runtime only", changes{onNode("id-p", "id-new")}, obsolete},

		{"older container, not killed", changes{func(s *sight) { s.pod.Status.ContainerStatuses[0] = runs("id-old", before) }}, obsolete},
		{"older container with an unreported end", changes{onNode(), func(s *sight) { s.pod.Status.ContainerStatuses[0] = runs("id-old", before) }}, stands},
		{"restarted and ended, unreported", changes{onNode(), restarted}, obsolete},

		{"no IDs: older container", changes{noIDs}, stands},
		{"no IDs: started since", changes{noIDs, restarted}, obsolete},
		{"no IDs: started in the second of the decision", changes{noIDs, func(s *sight) { s.pod.Status.ContainerStatuses[0] = runs("x", decided) }}, obsolete},
		{"no IDs: container in the runtime", changes{noIDs, onNode("id-p")}, obsolete},

		{"another UID", changes{func(s *sight) { s.pod.UID = "other" }}, obsolete},
		{"succeeded", changes{phase(corev1.PodSucceeded, "", "")}, obsolete},
		{"evicted by another program", changes{phase(corev1.PodFailed, "Evicted", "The node had condition: [DiskPressure]. ")}, obsolete},
		{"deadline exceeded", changes{phase(corev1.PodFailed, "DeadlineExceeded", "")}, obsolete},

		{"reported, answer lost", changes{phase(corev1.PodFailed, "Evicted", evictionMessage)}, reported},
		{"reported, overwritten", changes{disruption(evictionMessage, decided.Truncate(time.Second))}, reported},
		{"reported above a limit, overwritten", changes{marked(Evicted, evictionMessage, decided.Truncate(time.Second))}, reported},
		{"condition of an earlier eviction", changes{marked(Evicted, evictionMessage, before)}, stands},
		{"requested, not reported", changes{marked(EvictionRequested, evictionMessage, decided.Truncate(time.Second))}, stands},
		{"foreign disruption", changes{disruption("preempted", decided.Truncate(time.Second))}, stands},
		{"same message an hour before", changes{disruption(evictionMessage, before)}, stands},

		{"unconfirmed kill: nothing runs", changes{unconfirmed, onNode()}, stands},
		{"unconfirmed kill: runtime not queried", changes{unconfirmed}, stands},
		{"unconfirmed kill: containers still run", changes{unconfirmed, onNode("id-p"), func(s *sight) { s.at = decided.Add(29 * time.Second) }}, unclear},
		{"never killed", changes{unconfirmed, onNode("id-p")}, nothing},
		{"killed, still running", changes{onNode("containerd://id-p")}, stands},
	} {
		n := notice("p")
		s := &sight{pending: &PendingStatus{Notice: n, Ended: true, Status: true, Event: true}, pod: running(n), at: decided.Add(time.Minute)}
		for _, change := range tc.with {
			change(s)
		}
		if got, why := s.classify(); got != tc.want {
			t.Errorf("%s: got %d (%s), want %d", tc.name, got, why, tc.want)
		}
	}
}
