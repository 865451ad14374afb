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

// said is a condition with a status from before now, renewed since.
func said(kind string, status corev1.ConditionStatus, began, renewed time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status, Reason: "Said", Message: "by its own",
		LastTransitionTime: metav1.NewTime(now.Add(-began)), LastHeartbeatTime: metav1.NewTime(now.Add(-renewed))}
}

const (
	yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	standard, own    = "MemoryPressure", "plimsoll.dev/MemoryPressure"
	long, lately     = time.Hour, 10 * time.Second
)

type conditions = []corev1.NodeCondition

// TestAKubeletKeepsConditions writes to a Node as the users of a kubelet and of an agent, with
// the policy in force.
func TestAKubeletKeepsConditions(t *testing.T) {
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	s := newServer(t, c.Admin(), theAgent)
	s.apply(t, agentFile)
	if err := c.Namespace(t.Context(), victims); err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, place: newPlace(t, s.admin, "bow"), who: map[string]kubernetes.Interface{
		"agent": as(t, c, theAgent), "somebody": s.admin}}
	var err error
	k.who["kubelet"], err = kubernetes.NewForConfig(c.As("system:node:bow", "system:nodes"))
	k.must(err)
	_, err = c.Kubectl(t.Context(), "apply", "-f", "../../../deploy/admission/kubelet-keeps-conditions.yaml")
	k.must(err)
	kept := corev1.NodeCondition{Type: standard, Status: yes, Reason: "KubeletHasInsufficientMemory", Message: "plimsoll: by its own"}
	since := func(began time.Duration) *corev1.NodeCondition {
		kept := kept
		kept.LastTransitionTime = metav1.NewTime(now.Add(-began))
		return &kept
	}
	tests := []struct {
		what   string
		stands conditions
		writer string
		writes conditions
		want   *corev1.NodeCondition // the standard one, without its heartbeat; nil: as written
	}{
		{"it goes on", conditions{said(standard, yes, long, lately), said(own, yes, 2*long, lately)}, "kubelet", nil, since(long)},
		{"a minute is not over", conditions{said(standard, yes, long, lately), said(own, yes, long, time.Minute)}, "kubelet", nil, since(long)},
		{"it begins", conditions{said(standard, no, long, lately), said(own, yes, lately, lately)}, "kubelet", nil, since(lately)},
		{"the agent is gone", conditions{said(standard, yes, long, lately), said(own, yes, long, 61*time.Second)}, "kubelet", nil, nil},
		{"the agent says no", conditions{said(standard, yes, long, lately), said(own, no, lately, lately)}, "kubelet", nil, nil},
		{"the agent says nothing", conditions{said(standard, yes, long, lately)}, "kubelet", nil, nil},
		{"somebody else's condition", conditions{said(standard, yes, long, lately), said("plimsoll.dev/Other", yes, lately, lately), said("example.com/MemoryPressure", yes, lately, lately)}, "kubelet", nil, nil},
		{"another condition of the agent's", conditions{said(standard, yes, long, lately), said("plimsoll.dev/DiskPressure", yes, lately, lately)}, "kubelet", nil, nil},
		{"the kubelet says so itself", conditions{said(standard, yes, long, lately), said(own, yes, lately, lately)}, "kubelet",
			conditions{said(standard, yes, lately, 0)}, nil},
		{"somebody else writes", conditions{said(standard, yes, long, lately), said(own, yes, lately, lately)}, "somebody", nil, nil},

		{"the agent begins", conditions{said(standard, no, long, lately)}, "agent", conditions{said(own, yes, 0, 0)}, since(0)},
		{"the agent goes on", conditions{said(standard, yes, long, lately), said(own, yes, long, lately)}, "agent", conditions{said(own, yes, long, 0)}, ptr(said(standard, yes, long, 0))},
		{"the agent ends", conditions{said(standard, yes, long, lately), said(own, yes, long, lately)}, "agent", conditions{said(own, no, 0, 0)}, ptr(said(standard, yes, long, 0))},
		{"a node that is lost", conditions{said(standard, unknown, long, lately)}, "agent", conditions{said(own, yes, 0, 0)}, ptr(said(standard, unknown, long, 0))},
	}
	k.inForce()
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			k.t = t
			if test.writes == nil {
				test.writes = conditions{said(standard, no, 0, 0)}
			}
			if test.want == nil {
				test.want = &test.writes[0]
			}
			k.stand(test.stands)
			k.write(test.writer, append(test.writes, said("Ready", yes, long, 0)))
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

// keeper writes a Node's conditions as either user.
type keeper struct {
	t *testing.T
	*place
	who map[string]kubernetes.Interface
}

// stand makes these conditions the only ones.
func (k *keeper) stand(all conditions) {
	k.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": all}})
	k.must(err)
	k.patchNode(string(body), "status")
}

// write patches like kubelet and agent.
func (k *keeper) write(who string, some conditions) {
	k.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": some}})
	k.must(err)
	_, err = k.who[who].CoreV1().Nodes().Patch(k.t.Context(), k.node, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	k.must(err)
}

func (k *keeper) condition(kind string) *corev1.NodeCondition {
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
func (k *keeper) inForce() {
	k.t.Helper()
	until(k.t, "the policy keeps a condition", func() bool {
		k.stand(conditions{said(standard, yes, long, lately), said(own, yes, lately, lately)})
		k.write("kubelet", conditions{said(standard, no, 0, 0)})
		return k.condition(standard).Status == yes
	})
}

// everyPressure covers all three conditions at once, with the kubelet's reasons.
func (k *keeper) everyPressure() {
	reasons := map[string]string{"MemoryPressure": "KubeletHasInsufficientMemory", "DiskPressure": "KubeletHasDiskPressure", "PIDPressure": "KubeletHasInsufficientPID"}
	var stands, writes conditions
	for kind := range reasons {
		stands = append(stands, said(kind, yes, long, lately), said("plimsoll.dev/"+kind, yes, long, lately))
		writes = append(writes, said(kind, no, 0, 0))
	}
	k.stand(stands)
	k.write("kubelet", append(writes, said("Ready", yes, long, 0)))
	for kind, reason := range reasons {
		if c := k.condition(kind); c.Status != yes || c.Reason != reason {
			k.t.Errorf("%+v", c)
		}
	}
}
