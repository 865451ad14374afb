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
	"plimsoll.dev/plimsoll/internal/heartbeat"
)

// lease returns the lease of an agent, last renewed the given time ago.
func lease(node, armed, reason string, ago time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Now().Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{
			heartbeat.AnnotationVersion: "v1", heartbeat.AnnotationArmed: armed, heartbeat.AnnotationArmedReason: reason}},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed},
	}
}

func TestOutcomeOf_FollowsLease(t *testing.T) {
	start := time.Now().Add(-2 * reactionTime)
	other := lease("no-agent", "", "", 0)
	other.Annotations = nil
	for _, tc := range []struct {
		name    string
		setting arming.Setting
		lease   *coordinationv1.Lease
		again   bool // it was updated during the watch
		want    outcome
		absent  bool
	}{
		{"armed", arming.Arm, lease("n", "true", "flag", 0), false, outcome{followed: true, final: true, reason: "flag"}, false},
		{"pending reaction", arming.Arm, lease("n", "false", "refused: a", 0), false, outcome{reason: "refused: a"}, false},
		{"refused after reaction", arming.Arm, lease("n", "false", "refused: a", 0), true, outcome{final: true, reason: "refused: a"}, false},
		{"not disarmed yet", arming.Disarm, lease("n", "true", "flag", 0), true, outcome{reason: "flag"}, false},
		{"disarmed", arming.Disarm, lease("n", "false", "flag", 0), false, outcome{followed: true, final: true, reason: "flag"}, false},
		{"cleanup", arming.Cleanup, lease("n", "false", "flag", 0), true, outcome{reason: "flag"}, false},
		{"cleaned-up", arming.Cleanup, lease("n", "false", "cleaned-up", 0), false, outcome{followed: true, final: true, reason: "cleaned-up"}, false},
		{"expired lease, arm", arming.Arm, lease("n", "false", "", time.Hour), false, outcome{final: true}, false},
		{"expired armed lease, arm", arming.Arm, lease("n", "true", "flag", time.Hour), false, outcome{final: true}, false},
		{"expired disarmed lease, disarm", arming.Disarm, lease("n", "false", "flag", time.Hour), false, outcome{followed: true, final: true, reason: "flag"}, false},
		{"old version, disarm", arming.Disarm, lease("n", "", "", 0), true, outcome{}, false},
		{"expired lease, cleanup", arming.Cleanup, lease("n", "false", "", time.Hour), false, outcome{final: true, ignored: true}, false},
		{"clock skew, renewed lease", arming.Cleanup, lease("n", "false", "", time.Hour), true, outcome{}, false},
		{"no agent", arming.Disarm, other, false, outcome{absent: true}, true},
	} {
		s, r := newLeases(), Request{Setting: tc.setting, Namespace: "ns"}
		if err := s.Replace([]any{tc.lease}, "1"); err != nil {
			t.Fatal(err)
		}
		if tc.again {
			if err := s.Update(tc.lease); err != nil {
				t.Fatal(err)
			}
		}
		got := r.outcomeOf("n", s, start)
		if tc.want.node = "n"; tc.want.reason == "" {
			tc.want.reason = got.reason
		}
		if nodes, complete := s.nodes(); got != tc.want || !complete || len(nodes) == 0 != tc.absent || got.reason == "" {
			t.Errorf("%s: %+v, want %+v; nodes %v", tc.name, got, tc.want, nodes)
		}
	}
}

func TestReport_NamesNodesThatDoNotFollowWithRemedies(t *testing.T) {
	var out bytes.Buffer
	r := Request{Setting: arming.Arm, Out: &out}
	err := r.report([]outcome{{node: "a", followed: true, reason: "flag"}, {node: "b", reason: "refused: clock-skew-large, right-missing"}, {node: "c", reason: "the disarm file exists"}})
	if err == nil {
		t.Error("no error with unfollowed nodes")
	}
	for _, want := range []string{"a: armed (flag)\n", "b: not armed: refused: clock-skew-large, right-missing\n", "c: not armed: the disarm file exists\n",
		"--accept-findings=clock-skew-large", "--accept-findings=right-missing", "Remedy: ", "1 of 3 nodes: armed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := r.report([]outcome{{node: "a", final: true, ignored: true, reason: "dead"}}); err != nil {
		t.Errorf("a dead agent causes an error: %v", err)
	}
}

func TestLeases_RefuseOtherObjects(t *testing.T) {
	s := newLeases()
	for _, err := range []error{s.Add("x"), s.Delete("x"), s.Replace([]any{"x"}, "1")} {
		if err == nil {
			t.Error("an object of another type was accepted")
		}
	}
	if _, complete := s.nodes(); complete {
		t.Error("complete without a list")
	}
	if err := s.Add(lease("n", "true", "", 0)); err != nil || s.Resync() != nil {
		t.Fatal(err)
	}
	if err := s.Delete(lease("n", "true", "", 0)); err != nil {
		t.Fatal(err)
	}
	r := Request{Setting: arming.Arm, All: true, Namespace: "ns"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found := r.await(ctx, s, time.Now()); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// Helm adopts a ConfigMap that exists before the chart is installed.
func TestConfigMap_IsAdoptedByHelm(t *testing.T) {
	r := Request{Setting: arming.Disarm, Namespace: "ns"}
	created := r.configMap(r.entries("all", "accept"))
	if created.Labels["app.kubernetes.io/managed-by"] != "Helm" || created.Annotations["meta.helm.sh/release-name"] != "plimsoll" ||
		created.Annotations["meta.helm.sh/release-namespace"] != "ns" || created.Annotations["helm.sh/resource-policy"] != "keep" || created.Data["all"] != "disarmed" {
		t.Errorf("%+v", created)
	}
}
