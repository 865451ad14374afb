package rollout

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
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
		got := r.outcomeOf("n", s, begin{here: start, there: start})
		if tc.want.node = "n"; tc.want.reason == "" {
			tc.want.reason = got.reason
		}
		if nodes, complete := s.nodes(); got != tc.want || !complete || len(nodes) == 0 != tc.absent || got.reason == "" {
			t.Errorf("%s: %+v, want %+v; nodes %v", tc.name, got, tc.want, nodes)
		}
	}
}

// The age of a lease is by the clock of the API server: the clock of a laptop can be wrong by an hour.
func TestOutcomeOf_AgeOfLeaseByServersClock(t *testing.T) {
	s := newLeases()
	if err := s.Replace([]any{lease("n", "true", "flag", time.Hour)}, "1"); err != nil {
		t.Fatal(err)
	}
	r := Request{Setting: arming.Arm, Now: func() time.Time { return time.Now().Add(-time.Hour) }}
	if got := r.outcomeOf("n", s, r.begin()); !got.followed {
		t.Errorf("%+v", got)
	}
	if r.Now = nil; r.outcomeOf("n", s, r.begin()).followed {
		t.Error("a lease of an hour ago counts by the clock of this machine")
	}
}

// Nodes that do not follow are first, with remedies. Both parts are in natural order.
func TestReport_NodesThatDoNotFollowFirst(t *testing.T) {
	var out bytes.Buffer
	r := Request{Setting: arming.Arm, Out: &out}
	s := newLeases()
	if err := s.Replace([]any{lease("a-10", "true", "flag", 0), lease("a-9", "true", "flag", 0), lease("b-10", "false", "the disarm file exists", 0),
		lease("b-9", "false", "refused: clock-skew-large, right-missing", 0)}, "1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Nodes = []string{"b-10", "a-10", "b-9", "a-9"}
	found, _ := r.await(ctx, s, r.begin())
	if err := r.report(found); err == nil {
		t.Error("no error with nodes that do not follow")
	}
	rest := out.String()
	for _, want := range []string{"b-9: not armed: refused: clock-skew-large, right-missing\n", "b-10: not armed: the disarm file exists\n", "clock-skew-large: ", "Remedy: ", "--accept-findings=clock-skew-large",
		"--accept-findings=right-missing", "a-9: armed (flag)\n", "a-10: armed (flag)\n", "2 of 4 nodes: armed\n"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("no %q in its place in\n%s", want, &out)
			continue
		}
		rest = after
	}
	out.Reset()
	if err := r.report([]outcome{{node: "a", final: true, ignored: true, reason: "dead"}}); err != nil {
		t.Errorf("a dead agent causes an error: %v", err)
	}
}

func TestProgress_WritesChanges(t *testing.T) {
	var out bytes.Buffer
	r, before := Request{Setting: arming.Disarm, Progress: &out}, -1
	for _, followed := range []bool{false, false, true, true} {
		before = r.progress([]outcome{{node: "a", followed: followed}, {node: "b", followed: true}}, before)
	}
	if want := "1 of 2 nodes: disarmed\n2 of 2 nodes: disarmed\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	r.Progress = nil
	r.progress([]outcome{{node: "a"}}, -1)
}

// A node that does not exist does not affect the others. A message has the errors of few.
func TestWrite_ManyNodes(t *testing.T) {
	var nodes []runtime.Object
	r := Request{Setting: arming.Arm}
	for i := range 100 {
		name := fmt.Sprintf("n-%d", i)
		r.Nodes = append(r.Nodes, name)
		if i%2 == 0 {
			nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	set := fake.NewClientset(nodes...)
	r.Client = apitest.From(set)
	err := r.write(t.Context())
	if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) != maxFaults+1 || !strings.HasPrefix(lines[0], `write the setting "armed" to the node n-1: `) || lines[maxFaults] != "and the errors of 40 more nodes" {
		t.Errorf("%v", err)
	}
	all, err := set.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 50 {
		t.Fatal(len(all.Items), err)
	}
	for i := range all.Items {
		if got := all.Items[i].Annotations[arming.Annotation]; got != "armed" {
			t.Errorf("%s: %q", all.Items[i].Name, got)
		}
	}
}

// Any writer of a lease can write any text. It reaches no terminal, and stays bounded.
func TestReport_ReasonIsPrintable(t *testing.T) {
	var out bytes.Buffer
	r, s := Request{Setting: arming.Disarm, Nodes: []string{"n"}, Out: &out}, newLeases()
	if err := s.Replace([]any{lease("n", "false", "\x1b[2J"+strings.Repeat("x", 10_000), 0)}, "1"); err != nil {
		t.Fatal(err)
	}
	found, _ := r.await(t.Context(), s, r.begin())
	if err := r.report(found); err != nil || strings.Contains(out.String(), "\x1b") || out.Len() > 2*maxReason {
		t.Errorf("%v, %d bytes: %.40q", err, out.Len(), &out)
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
	if found, complete := r.await(ctx, s, r.begin()); len(found) != 0 || complete {
		t.Errorf("%+v", found)
	}
}

// A list that arrives just before the end of the wait counts: without it, no node would have an agent.
func TestAwait_CountsLeasesUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newLeases(), Request{Setting: arming.Disarm, All: true}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(pollPeriod/4, func() {
			if err := s.Replace([]any{lease("a", "false", "flag", 0), lease("b", "true", "flag", 0)}, "1"); err != nil {
				t.Error(err)
			}
		})
		time.AfterFunc(pollPeriod/2, cancel)
		if found, complete := r.await(ctx, s, r.begin()); !complete || len(found) != 2 || followers(found) != 1 {
			t.Errorf("complete %t, %+v", complete, found)
		}
	})
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
