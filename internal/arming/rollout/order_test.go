package rollout

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// says is the lease of an agent, renewed now or so long ago.
func says(node, armed, reason string, ago time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Now().Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{
			nodestatus.AnnotationVersion: "v1", nodestatus.AnnotationArmed: armed, nodestatus.AnnotationArmedReason: reason}},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
	}
}

func TestWhatBecomesOfAWord(t *testing.T) {
	begun := time.Now().Add(-2 * hearingTime)
	other := says("no-agent", "", "", 0)
	other.Annotations = nil
	for _, tc := range []struct {
		about  string
		word   arming.Word
		lease  *coordinationv1.Lease
		again  bool // it was renewed while it was listened to
		fate   fate
		absent bool
	}{
		{"armed", arming.Arm, says("n", "true", "told", 0), false, fate{followed: true, final: true, why: "told"}, false},
		{"may not have heard yet", arming.Arm, says("n", "false", "refused: a", 0), false, fate{why: "refused: a"}, false},
		{"has heard, and refuses", arming.Arm, says("n", "false", "refused: a", 0), true, fate{final: true, why: "refused: a"}, false},
		{"not disarmed yet", arming.Disarm, says("n", "true", "told", 0), true, fate{why: "told"}, false},
		{"disarmed", arming.Disarm, says("n", "false", "told", 0), false, fate{followed: true, final: true, why: "told"}, false},
		{"leaving", arming.Leave, says("n", "false", "told", 0), true, fate{why: "told"}, false},
		{"left", arming.Leave, says("n", "false", "left", 0), false, fate{followed: true, final: true, why: "left"}, false},
		{"dead, to be armed", arming.Arm, says("n", "false", "", time.Hour), false, fate{final: true}, false},
		{"dead, and armed when it was alive", arming.Arm, says("n", "true", "told", time.Hour), false, fate{final: true}, false},
		{"dead, and disarmed when it was alive", arming.Disarm, says("n", "false", "told", time.Hour), false, fate{followed: true, final: true, why: "told"}, false},
		{"too old to be disarmed", arming.Disarm, says("n", "", "", 0), true, fate{}, false},
		{"dead, to leave", arming.Leave, says("n", "false", "", time.Hour), false, fate{final: true, excused: true}, false},
		{"a clock an hour late, but alive", arming.Leave, says("n", "false", "", time.Hour), true, fate{}, false},
		{"no agent", arming.Disarm, other, false, fate{absent: true}, true},
	} {
		r, o := newRoll(), Request{Word: tc.word, Namespace: "ns"}
		if err := r.Replace([]any{tc.lease}, "1"); err != nil {
			t.Fatal(err)
		}
		if tc.again {
			if err := r.Update(tc.lease); err != nil {
				t.Fatal(err)
			}
		}
		got := o.fateOf("n", r, begun)
		if tc.fate.node = "n"; tc.fate.why == "" {
			tc.fate.why = got.why // as the test of its text says
		}
		if names, complete := r.names(); got != tc.fate || !complete || len(names) == 0 != tc.absent || got.why == "" {
			t.Errorf("%s: %+v, want %+v; names %v", tc.about, got, tc.fate, names)
		}
	}
}

func TestWhoDidNotFollowIsNamedWithARemedy(t *testing.T) {
	var out bytes.Buffer
	o := Request{Word: arming.Arm, Out: &out}
	err := o.tell([]fate{{node: "a", followed: true, why: "told"}, {node: "b", why: "refused: clock-skew-large, right-missing"}, {node: "c", why: "the disarm file is there"}})
	if err == nil {
		t.Error("all is well")
	}
	for _, want := range []string{"a: armed (told)\n", "b: not armed: refused: clock-skew-large, right-missing\n", "c: not armed: the disarm file is there\n",
		"--accept-findings=clock-skew-large", "--accept-findings=right-missing", "Remedy: ", "1 of 3 nodes: armed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := o.tell([]fate{{node: "a", final: true, excused: true, why: "dead"}}); err != nil {
		t.Errorf("nobody is there to follow: %v", err)
	}
}

func TestTheLeasesOfOthersAreRefused(t *testing.T) {
	r := newRoll()
	for _, err := range []error{r.Add("x"), r.Delete("x"), r.Replace([]any{"x"}, "1")} {
		if err == nil {
			t.Error("taken in")
		}
	}
	if _, complete := r.names(); complete {
		t.Error("complete by what was no list")
	}
	if err := r.Add(says("n", "true", "", 0)); err != nil || r.Resync() != nil {
		t.Fatal(err)
	}
	if err := r.Delete(says("n", "true", "", 0)); err != nil {
		t.Fatal(err)
	}
	o := Request{Word: arming.Arm, All: true, Namespace: "ns"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found := o.await(ctx, r, time.Now()); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// A ConfigMap that exists before the chart is installed is one that Helm adopts.
func TestDisarm_MakesWhatHelmAdopts(t *testing.T) {
	o := Request{Word: arming.Disarm, Namespace: "ns"}
	made := o.configMap(o.entries("all", "accept"))
	if made.Labels["app.kubernetes.io/managed-by"] != "Helm" || made.Annotations["meta.helm.sh/release-name"] != "plimsoll" ||
		made.Annotations["meta.helm.sh/release-namespace"] != "ns" || made.Annotations["helm.sh/resource-policy"] != "keep" || made.Data["all"] != "disarmed" {
		t.Errorf("%+v", made)
	}
}
