package rbac_test

import (
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// place is a node with a pod that the agent may evict, and the agent's own pod.
type place struct {
	t     *testing.T
	admin kubernetes.Interface
	node  string
	pod   *corev1.Pod
	agent *corev1.Pod
	env   []corev1.EnvVar // of pods
}

func newPlace(t *testing.T, admin kubernetes.Interface, node string) *place {
	t.Helper()
	p := &place{t: t, admin: admin, node: node}
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	p.must(err)
	p.agent = p.run(namespace, "agent-"+node, string(theAgent))
	p.reset()
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// run creates a pod on the node; it never runs.
func (p *place) run(in, name, account string) *corev1.Pod {
	p.t.Helper()
	off := false
	made, err := p.admin.CoreV1().Pods(in).Create(p.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "shop"}, Finalizers: []string{"test.example/kept"}},
		Spec: corev1.PodSpec{NodeName: p.node, ServiceAccountName: account, AutomountServiceAccountToken: &off,
			Containers: []corev1.Container{{Name: "app", Image: "none", Env: p.env}}},
	}, metav1.CreateOptions{})
	p.must(err)
	return made
}

const victims = "shop"

// reset restores the initial state, with a running pod.
func (p *place) reset() {
	p.t.Helper()
	ctx := p.t.Context()
	p.patchNode(`{"spec":{"taints":[{"key":"team","effect":"NoSchedule"}]}}`)
	p.patchNode(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"},{"type":"MemoryPressure","status":"False"}],`+
		`"capacity":{"memory":"1Gi"},"images":[{"names":["kept"],"sizeBytes":1}],"nodeInfo":{"kubeletVersion":""}}}`, "status")
	for _, in := range []string{namespace, corev1.NamespaceNodeLease} {
		err := p.admin.CoordinationV1().Leases(in).Delete(ctx, p.node, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			p.must(err)
		}
	}
	if err := p.admin.CoreV1().ConfigMaps(evictions).Delete(ctx, p.node, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		p.must(err)
	}
	if p.pod != nil {
		p.free()
	}
	p.pod = p.run(victims, "victim-"+p.node, "default")
	p.patchPod(`{"status":{"phase":"Running","podIP":"192.0.2.7","podIPs":[{"ip":"192.0.2.7"}],"conditions":[{"type":"Ready","status":"True"}],` +
		`"containerStatuses":[{"name":"app","image":"none","imageID":"none","ready":true,"restartCount":0,"containerID":"containerd://app","state":{"running":{}}}]}}`)
}

// free deletes the pod and completes its deletion.
func (p *place) free() {
	p.t.Helper()
	ctx, pods := p.t.Context(), p.admin.CoreV1().Pods(victims)
	now := int64(0)
	err := pods.Delete(ctx, p.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if apierrors.IsNotFound(err) {
		return
	}
	p.must(err)
	_, err = pods.Patch(ctx, p.pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		p.must(err)
	}
}

func (p *place) patchNode(body string, subresource ...string) {
	p.t.Helper()
	_, err := p.admin.CoreV1().Nodes().Patch(p.t.Context(), p.node, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresource...)
	p.must(err)
}

func (p *place) patchPod(body string) {
	p.t.Helper()
	got, err := p.admin.CoreV1().Pods(victims).Patch(p.t.Context(), p.pod.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status")
	p.must(err)
	p.pod = got
}

// object returns the Node as from an informer.
func (p *place) object() *corev1.Node {
	n, err := p.admin.CoreV1().Nodes().Get(p.t.Context(), p.node, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n
}

// The states of a place before a write.

func (p *place) conditioned() {
	p.patchNode(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"},{"type":"plimsoll.dev/MemoryPressure","status":"True"}]}}`, "status")
}

func (p *place) tainted() {
	p.patchNode(`{"spec":{"taints":[{"key":"team","effect":"NoSchedule"},{"key":"plimsoll.dev/disk-pressure","effect":"NoSchedule"}]}}`)
}

func (p *place) evictedBefore() {
	p.patchPod(`{"status":{"phase":"Failed","reason":"Evicted","conditions":[{"type":"Ready","status":"False"},` +
		`{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet","message":"before"},{"type":"plimsoll.dev/Evicted","status":"True"}]}}`)
}

func (p *place) marked() {
	p.patchPod(`{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"plimsoll.dev/EvictionRequested","status":"True"}]}}`)
}

func (p *place) leased() {
	for _, in := range []string{namespace, corev1.NamespaceNodeLease} {
		p.leaseOf(in, p.node)
	}
}

func (p *place) recorded() {
	p.t.Helper()
	_, err := p.admin.CoreV1().ConfigMaps(evictions).Create(p.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: p.node}}, metav1.CreateOptions{})
	p.must(err)
}

func (p *place) leaseOf(in, name string) {
	p.t.Helper()
	_, err := p.admin.CoordinationV1().Leases(in).Create(p.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		p.must(err)
	}
}

// token creates a token, optionally bound to an object.
func token(t *testing.T, admin kubernetes.Interface, bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	answer, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), string(theAgent),
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("request a token bound to %v: %v", bound, err)
	}
	return answer.Status.Token
}

// toPod returns the reference with which the kubelet requests the token of an agent's pod.
func (p *place) toPod() *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.agent.Name, UID: p.agent.UID}
}

// toNode returns the reference for the token of an agent under systemd.
func (p *place) toNode() *authenticationv1.BoundObjectReference {
	n := p.object()
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
}

// env is an API server with two nodes, the files and the policy.
type env struct {
	*cluster.Cluster
	admin      kubernetes.Interface
	own, other *place
}

const policyName = "plimsoll-agent-own-node"

func newEnv(t *testing.T) *env {
	t.Helper()
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer | cluster.Controllers})
	s := newServer(t, c.Admin(), theAgent)
	s.apply(t, agentFile)
	for _, file := range options() {
		s.apply(t, file)
	}
	if err := c.Namespace(t.Context(), victims); err != nil {
		t.Fatal(err)
	}
	y := &env{Cluster: c, admin: s.admin, own: newPlace(t, s.admin, "bow"), other: newPlace(t, s.admin, "stern")}
	if err := c.ApplyPolicy(t.Context(), "agent-own-node.yaml"); err != nil {
		t.Fatal(err)
	}
	y.inForce(t)
	return y
}

// inForce waits until the policy is enforced; servers learn of one with a delay.
func (y *env) inForce(t *testing.T) {
	t.Helper()
	client, err := kubernetes.NewForConfig(y.Bearer(token(t, y.admin, nil)))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the policy refuses a token that names no node", func() bool {
		_, err := client.CoordinationV1().Leases(namespace).Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return refusedByPolicy(fmt.Sprint(err))
	})
}
