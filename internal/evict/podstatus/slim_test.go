package podstatus

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/anypods"
)

// Whether a status is still to be reported does not depend on the fields of the pod that were
// dropped before it was decoded.
func TestSight_SlimPods(t *testing.T) {
	judged := map[standing]int{}
	for seed := range int64(1000) {
		whole, slim := anypods.Decoded(t, anypods.Pod(seed, "n1"))
		d := &PendingStatus{Ended: true, Repair: seed%4 == 0, Notice: Notice{UID: string(whole.UID), Decided: time.Unix(1700000050, 0)}}
		if n := len(whole.Status.ContainerStatuses); n > 0 {
			if end := whole.Status.ContainerStatuses[0].LastTerminationState.Terminated; end != nil {
				d.Notice.Killed = []string{end.ContainerID}
			}
		}
		if len(whole.Status.Conditions) > 0 && seed%2 == 0 {
			d.Notice.Message = whole.Status.Conditions[0].Message
		}
		want, why := (&sight{debt: d, pod: whole, at: d.Notice.Decided}).judge()
		got, slimWhy := (&sight{debt: d, pod: slim, at: d.Notice.Decided}).judge()
		if want != got || why != slimWhy {
			t.Fatalf("seed %d: %v %q, not %v %q", seed, got, slimWhy, want, why)
		}
		judged[want]++
	}
	if judged[stands] < 50 || judged[lapsed] < 50 {
		t.Errorf("too few pods were compared: %v", judged)
	}
}
