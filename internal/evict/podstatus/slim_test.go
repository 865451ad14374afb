package podstatus

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/anypods"
)

// Whether a status is still to be reported does not depend on the fields of the pod that were
// dropped before it was decoded.
func TestSight_AgreesOnSlimPods(t *testing.T) {
	counts := map[standing]int{}
	for seed := range int64(1000) {
		full, slim := anypods.Decoded(t, anypods.Pod(seed, "n1"))
		d := &PendingStatus{Ended: true, Repair: seed%4 == 0, Notice: Notice{UID: string(full.UID), Decided: time.Unix(1700000050, 0)}}
		if n := len(full.Status.ContainerStatuses); n > 0 {
			if end := full.Status.ContainerStatuses[0].LastTerminationState.Terminated; end != nil {
				d.Notice.Killed = []string{end.ContainerID}
			}
		}
		if len(full.Status.Conditions) > 0 && seed%2 == 0 {
			d.Notice.Message = full.Status.Conditions[0].Message
		}
		want, why := (&sight{pending: d, pod: full, at: d.Notice.Decided}).classify()
		got, slimWhy := (&sight{pending: d, pod: slim, at: d.Notice.Decided}).classify()
		if want != got || why != slimWhy {
			t.Fatalf("seed %d: got %v %q, want %v %q", seed, got, slimWhy, want, why)
		}
		counts[want]++
	}
	if counts[stands] < 50 || counts[obsolete] < 50 {
		t.Errorf("too few pods were compared: %v", counts)
	}
}
