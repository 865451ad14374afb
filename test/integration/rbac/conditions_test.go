package rbac_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// now is the time of the kubelet's write; everything else is earlier.
var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// condition is a condition with a status from before now, renewed since.
func condition(kind string, status corev1.ConditionStatus, began, renewed time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, Reason: "Reported", Message: "by its own",
		LastTransitionTime: metav1.NewTime(now.Add(-began)), LastHeartbeatTime: metav1.NewTime(now.Add(-renewed))}
}

const (
	yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	standard, own    = "MemoryPressure", "plimsoll.dev/MemoryPressure"
	long, lately     = time.Hour, 10 * time.Second
)

type conditions = []corev1.NodeCondition

// TestKeepsConditions_ProtectsConditionsOfAgent writes to a Node as the users of a kubelet and of an agent, with
// the policy in force.
func TestKeepsConditions_ProtectsConditionsOfAgent(t *testing.T) {
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	s := newServer(t, c.Admin(), theAgent)
	s.apply(t, agentFile)
	if err := c.Namespace(t.Context(), victims); err != nil {
		t.Fatal(err)
	}
	k := &nodeWriter{t: t, place: newPlace(t, s.admin, "bow"), clients: map[string]kubernetes.Interface{
		"agent": as(t, c, theAgent), "admin": s.admin}}
	var err error
	k.clients["kubelet"], err = kubernetes.NewForConfig(c.As("system:node:bow", "system:nodes"))
	k.must(err)
	k.must(c.ApplyPolicy(t.Context(), "kubelet-keeps-conditions.yaml"))
	want := corev1.NodeCondition{Type: standard, Status: yes, Reason: "KubeletHasInsufficientMemory", Message: "plimsoll: by its own"}
	since := func(began time.Duration) *corev1.NodeCondition {
		want := want
		want.LastTransitionTime = metav1.NewTime(now.Add(-began))
		return &want
	}
	tests := []struct {
		what   string
		before conditions
		writer string
		writes conditions
		want   *corev1.NodeCondition // the standard one, without its heartbeat; nil: as written
	}{
		{"continued pressure", conditions{condition(standard, yes, long, lately), condition(own, yes, 2*long, lately)}, "kubelet", nil, since(long)},
		{"heartbeat one minute old", conditions{condition(standard, yes, long, lately), condition(own, yes, long, time.Minute)}, "kubelet", nil, since(long)},
		{"new pressure", conditions{condition(standard, no, long, lately), condition(own, yes, lately, lately)}, "kubelet", nil, since(lately)},
		{"expired heartbeat of the agent", conditions{condition(standard, yes, long, lately), condition(own, yes, long, 61*time.Second)}, "kubelet", nil, nil},
		{"agent reports False", conditions{condition(standard, yes, long, lately), condition(own, no, lately, lately)}, "kubelet", nil, nil},
		{"no condition of the agent", conditions{condition(standard, yes, long, lately)}, "kubelet", nil, nil},
		{"condition of another component", conditions{condition(standard, yes, long, lately), condition("plimsoll.dev/Other", yes, lately, lately), condition("example.com/MemoryPressure", yes, lately, lately)}, "kubelet", nil, nil},
		{"other condition of the agent", conditions{condition(standard, yes, long, lately), condition("plimsoll.dev/DiskPressure", yes, lately, lately)}, "kubelet", nil, nil},
		{"kubelet reports True", conditions{condition(standard, yes, long, lately), condition(own, yes, lately, lately)}, "kubelet",
			conditions{condition(standard, yes, lately, 0)}, nil},
		{"write by another user", conditions{condition(standard, yes, long, lately), condition(own, yes, lately, lately)}, "admin", nil, nil},

		{"first report of the agent", conditions{condition(standard, no, long, lately)}, "agent", conditions{condition(own, yes, 0, 0)}, since(0)},
		{"repeated report of the agent", conditions{condition(standard, yes, long, lately), condition(own, yes, long, lately)}, "agent", conditions{condition(own, yes, long, 0)}, ptr(condition(standard, yes, long, 0))},
		{"end of the agent's report", conditions{condition(standard, yes, long, lately), condition(own, yes, long, lately)}, "agent", conditions{condition(own, no, 0, 0)}, ptr(condition(standard, yes, long, 0))},
		{"lost node", conditions{condition(standard, unknown, long, lately)}, "agent", conditions{condition(own, yes, 0, 0)}, ptr(condition(standard, unknown, long, 0))},
	}
	k.inForce()
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			k.t = t
			if test.writes == nil {
				test.writes = conditions{condition(standard, no, 0, 0)}
			}
			if test.want == nil {
				test.want = &test.writes[0]
			}
			k.set(test.before)
			k.write(test.writer, append(test.writes, condition("Ready", yes, long, 0)))
			got := k.condition(standard)
			got.LastHeartbeatTime, test.want.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	k.t = t
	k.everyPressure()
}

func ptr(c corev1.NodeCondition) *corev1.NodeCondition { return &c }

// nodeWriter writes a Node's conditions as either user.
type nodeWriter struct {
	t *testing.T
	*place
	clients map[string]kubernetes.Interface
}

// set makes these conditions the only ones.
func (k *nodeWriter) set(all conditions) {
	k.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": all}})
	k.must(err)
	k.patchNode(string(body), "status")
}

// write patches like kubelet and agent.
func (k *nodeWriter) write(user string, some conditions) {
	k.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": some}})
	k.must(err)
	_, err = k.clients[user].CoreV1().Nodes().Patch(k.t.Context(), k.node, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	k.must(err)
}

func (k *nodeWriter) condition(kind string) *corev1.NodeCondition {
	k.t.Helper()
	for _, c := range k.object().Status.Conditions {
		if string(c.Type) == kind {
			c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC())
			return &c
		}
	}
	k.t.Fatalf("no condition %s", kind)
	return nil
}

// inForce waits until the policy is enforced.
func (k *nodeWriter) inForce() {
	k.t.Helper()
	until(k.t, "the policy restores a condition", func() bool {
		k.set(conditions{condition(standard, yes, long, lately), condition(own, yes, lately, lately)})
		k.write("kubelet", conditions{condition(standard, no, 0, 0)})
		return k.condition(standard).Status == yes
	})
}

// everyPressure covers all three conditions at once, with the kubelet's reasons.
func (k *nodeWriter) everyPressure() {
	reasons := map[string]string{"MemoryPressure": "KubeletHasInsufficientMemory", "DiskPressure": "KubeletHasDiskPressure", "PIDPressure": "KubeletHasInsufficientPID"}
	var before, writes conditions
	for kind := range reasons {
		before = append(before, condition(kind, yes, long, lately), condition("plimsoll.dev/"+kind, yes, long, lately))
		writes = append(writes, condition(kind, no, 0, 0))
	}
	k.set(before)
	k.write("kubelet", append(writes, condition("Ready", yes, long, 0)))
	for kind, reason := range reasons {
		if c := k.condition(kind); c.Status != yes || c.Reason != reason {
			k.t.Errorf("%+v", c)
		}
	}
}
