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

func unconfirmed(s *sight) { s.debt.Ended = false }

func noIDs(s *sight) { s.debt.Notice.Killed = nil }

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

func TestLateLook(t *testing.T) {
	type changes = []func(*sight)
	for _, tc := range []struct {
		about string
		with  changes
		want  standing
	}{
		{"the kubelet has not noticed", nil, stands},
		{"the kubelet has noticed", changes{containers(ended("id-p", before))}, stands},
		{"the kubelet is about to restart it", changes{containers(waitingToRestart, ended("id-p", before))}, stands},
		{"failed by itself, restartPolicy Never", changes{containers(ended("id-p", before)), phase(corev1.PodFailed, "", "")}, stands},
		{"an init container ran before", changes{setup}, stands},
		{"never started anything", changes{containers(corev1.ContainerState{})}, stands},

		{"runs again", changes{restarted}, lapsed},
		{"a sidecar runs again", changes{sidecar}, lapsed},
		{"somebody debugs it", changes{debugged}, lapsed},
		{"ran again and ended", changes{containers(ended("id-new", after))}, lapsed},
		{"ran again, ended, waits", changes{containers(waitingToRestart, ended("id-new", after))}, lapsed},
		{"runs again, which only the node knows", changes{onNode("id-new")}, lapsed},
		{"half of it runs again, as the node knows", changes{onNode("id-p", "id-new")}, lapsed},

		{"runs, not killed, since before", changes{func(s *sight) { s.pod.Status.ContainerStatuses[0] = runs("id-old", before) }}, lapsed},
		{"the kubelet is two containers behind", changes{onNode(), func(s *sight) { s.pod.Status.ContainerStatuses[0] = runs("id-old", before) }}, stands},
		{"ran again and ended, unreported", changes{onNode(), restarted}, lapsed},

		{"no IDs: runs since before", changes{noIDs}, stands},
		{"no IDs: started since", changes{noIDs, restarted}, lapsed},
		{"no IDs: started in the second of the decision", changes{noIDs, func(s *sight) { s.pod.Status.ContainerStatuses[0] = runs("x", decided) }}, lapsed},
		{"no IDs: the node sees something run", changes{noIDs, onNode("id-p")}, lapsed},

		{"another UID", changes{func(s *sight) { s.pod.UID = "other" }}, lapsed},
		{"succeeded", changes{phase(corev1.PodSucceeded, "", "")}, lapsed},
		{"evicted by somebody else", changes{phase(corev1.PodFailed, "Evicted", "The node had condition: [DiskPressure]. ")}, lapsed},
		{"over its deadline", changes{phase(corev1.PodFailed, "DeadlineExceeded", "")}, lapsed},

		{"told, the answer was lost", changes{phase(corev1.PodFailed, "Evicted", evictionMessage)}, told},
		{"told, and undone by the kubelet", changes{disruption(evictionMessage, decided.Truncate(time.Second))}, told},
		{"told above a limit, and undone by the kubelet", changes{marked(Evicted, evictionMessage, decided.Truncate(time.Second))}, told},
		{"a mark of an eviction before", changes{marked(Evicted, evictionMessage, before)}, stands},
		{"asked for, not told", changes{marked(EvictionRequested, evictionMessage, decided.Truncate(time.Second))}, stands},
		{"a disruption that is not ours", changes{disruption("preempted", decided.Truncate(time.Second))}, stands},
		{"the same message an hour ago", changes{disruption(evictionMessage, before)}, stands},

		{"killed or not: nothing runs", changes{unconfirmed, onNode()}, stands},
		{"killed or not: nobody can say", changes{unconfirmed}, stands},
		{"killed or not: it still runs", changes{unconfirmed, onNode("id-p"), func(s *sight) { s.at = decided.Add(29 * time.Second) }}, unclear},
		{"never killed", changes{unconfirmed, onNode("id-p")}, nothing},
		{"killed, and does not die", changes{onNode("containerd://id-p")}, stands},
	} {
		n := notice("p")
		s := &sight{debt: &PendingStatus{Notice: n, Ended: true, Status: true, Event: true}, pod: running(n), at: decided.Add(time.Minute)}
		for _, change := range tc.with {
			change(s)
		}
		if got, why := s.judge(); got != tc.want {
			t.Errorf("%s: %d (%s), want %d", tc.about, got, why, tc.want)
		}
	}
}
