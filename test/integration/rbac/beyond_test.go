package rbac_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Attempts of a thief with a token, on the token's own node. Each is a merge patch; lists are
// those of reset except for the change.
const ready = `{"type":"Ready","status":"True","reason":"KubeletReady"},{"type":"MemoryPressure","status":"False"}`

var beyondNodeStatus = []struct{ what, patch string }{
	{"arm the agent", `{"metadata":{"annotations":{"plimsoll.dev/arming":"armed"}}}`},
	{"accept findings against arming", `{"metadata":{"annotations":{"plimsoll.dev/accept-findings":"kubelet-threshold"}}}`},
	{"label the node", `{"metadata":{"labels":{"role":"control-plane"}}}`},
	{"add a finalizer to the node", `{"metadata":{"finalizers":["example.com/forever"]}}`},
	{"add an owner to the node", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`},
	{"report not ready", `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"MemoryPressure","status":"False"}]}}`},
	{"remove the condition Ready", `{"status":{"conditions":[{"type":"MemoryPressure","status":"False"}]}}`},
	{"report no network", `{"status":{"conditions":[` + ready + `,{"type":"NetworkUnavailable","status":"True"}]}}`},
	{"a condition of another component", `{"status":{"conditions":[` + ready + `,{"type":"example.com/plimsoll.dev/x","status":"True"}]}}`},
	{"more memory", `{"status":{"capacity":{"memory":"64Gi"}}}`},
	{"less allocatable memory", `{"status":{"allocatable":{"memory":"1Mi"}}}`},
	{"another address", `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.66"}]}}`},
	{"another port of the kubelet", `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":6666}}}}`},
	{"another kubelet", `{"status":{"nodeInfo":{"kubeletVersion":"v1.0.0"}}}`},
	{"other images", `{"status":{"images":[]}}`},
	{"another phase", `{"status":{"phase":"Terminated"}}`},
	{"volumes", `{"status":{"volumesInUse":["kubernetes.io/x"]}}`},
	{"devices", `{"status":{"volumesAttached":[{"name":"x","devicePath":"/dev/x"}]}}`},
}

const team = `{"key":"team","effect":"NoSchedule"}`

var beyondNode = []struct{ what, patch string }{
	{"arm the agent", `{"metadata":{"annotations":{"plimsoll.dev/arming":"armed"}}}`},
	{"label the node", `{"metadata":{"labels":{"role":"control-plane"}}}`},
	{"cordon the node", `{"spec":{"unschedulable":true}}`},
	{"a provider's name", `{"spec":{"providerID":"cloud://x"}}`},
	{"a network", `{"spec":{"podCIDR":"192.0.2.0/24","podCIDRs":["192.0.2.0/24"]}}`},
	{"remove a taint of another component", `{"spec":{"taints":[]}}`},
	{"a taint with a foreign key", `{"spec":{"taints":[` + team + `,{"key":"mine","effect":"NoSchedule"}]}}`},
	{"a taint that evicts", `{"spec":{"taints":[` + team + `,{"key":"plimsoll.dev/memory-pressure","effect":"NoExecute"}]}}`},
	{"a standard taint", `{"spec":{"taints":[` + team + `,{"key":"node.kubernetes.io/memory-pressure","effect":"NoSchedule"}]}}`},
	{"another taint with our prefix", `{"spec":{"taints":[` + team + `,{"key":"plimsoll.dev/mine","effect":"NoSchedule"}]}}`},
}

var beyondPodStatus = []struct{ what, patch string }{
	{"label the pod", `{"metadata":{"labels":{"app":"bank"}}}`},
	{"remove the labels", `{"metadata":{"labels":null}}`},
	{"an annotation", `{"metadata":{"annotations":{"plimsoll.dev/eviction-policy":"never"}}}`},
	{"no finalizer", `{"metadata":{"finalizers":null}}`},
	{"phase Succeeded", `{"status":{"phase":"Succeeded"}}`},
	{"phase Pending", `{"status":{"phase":"Pending"}}`},
	{"phase Failed for another reason", `{"status":{"phase":"Failed","reason":"DeadlineExceeded"}}`},
	{"phase Failed with a message alone", `{"status":{"phase":"Failed","message":"mine"}}`},
	{"a reason of a running pod", `{"status":{"reason":"Evicted"}}`},
	{"a message of a running pod", `{"status":{"message":"mine"}}`},
	{"another image", `{"status":{"containerStatuses":[{"name":"app","image":"other","imageID":"none","ready":true,"restartCount":0,"containerID":"containerd://app","state":{"running":{}}}]}}`},
	{"no containers", `{"status":{"containerStatuses":null}}`},
	{"init containers", `{"status":{"initContainerStatuses":[{"name":"app","image":"none","imageID":"none"}]}}`},
	{"another address", `{"status":{"podIP":"192.0.2.8","podIPs":[{"ip":"192.0.2.8"}]}}`},
	{"another address of the host", `{"status":{"hostIP":"192.0.2.9","hostIPs":[{"ip":"192.0.2.9"}]}}`},
	{"an earlier start", `{"status":{"startTime":"2020-01-01T00:00:00Z"}}`},
	{"report not ready", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`},
	{"no conditions", `{"status":{"conditions":null}}`},
	{"a gate of readiness", `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"example.com/gate","status":"True"}]}}`},
	{"another's disruption", `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]}}`},
	{"no disruption", `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DisruptionTarget","status":"False","reason":"TerminationByKubelet"}]}}`},
}

// beyondEnd are reports about pods that have ended, and attempts to revert an eviction.
var beyondEnd = []struct{ what, before, patch string }{
	{"evict a succeeded pod", `{"status":{"phase":"Succeeded"}}`, `{"status":{"phase":"Failed","reason":"Evicted"}}`},
	{"evict a succeeded pod without a reason", `{"status":{"phase":"Succeeded"}}`, `{"status":{"phase":"Failed"}}`},
	{"remove the reason of a failed pod", `{"status":{"phase":"Failed","reason":"DeadlineExceeded"}}`, `{"status":{"reason":null}}`},
	{"evict a failed pod", `{"status":{"phase":"Failed","reason":"DeadlineExceeded"}}`, `{"status":{"phase":"Failed","reason":"Evicted"}}`},
	{"a message of a failed pod", `{"status":{"phase":"Failed"}}`, `{"status":{"message":"mine"}}`},
	{"remove the reason of an eviction", `{"status":{"phase":"Failed","reason":"Evicted"}}`, `{"status":{"reason":null}}`},
	{"revert an eviction", `{"status":{"phase":"Failed","reason":"Evicted"}}`, `{"status":{"phase":"Running","reason":null}}`},
	{"remove DisruptionTarget", `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet"}]}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`},
}

// withoutEffect are accepted, because these resources do not write the requested field.
var withoutEffect = []struct{ what, resource, patch string }{
	{"cordon the node by its status", "nodes", `{"spec":{"unschedulable":true}}`},
	{"another image by the pod's status", "pods", `{"spec":{"containers":[{"name":"app","image":"other"}]}}`},
	{"another owner by the pod's status", "pods", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"x"}]}}`},
	{"conditions by the Node itself", "node", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`},
}

// thief has the token of the agent of one node.
type thief struct {
	*env
	t    *testing.T
	rest rest.Interface // of the core group
	core kubernetes.Interface
}

func (y *env) more(t *testing.T) {
	client, err := kubernetes.NewForConfig(y.Bearer(token(t, y.admin, y.own.toPod())))
	if err != nil {
		t.Fatal(err)
	}
	f := &thief{y, t, client.CoreV1().RESTClient(), client}
	y.own.reset()
	node := "nodes/" + y.own.node
	for _, b := range beyondNodeStatus {
		f.refused(b.what, f.patch(node+"/status", b.patch))
	}
	for _, b := range beyondNode {
		f.refused(b.what, f.patch(node, b.patch))
	}
	for _, b := range beyondPodStatus {
		f.refused(b.what, f.patch(f.podPath()+"/status", b.patch))
	}
	for _, b := range beyondEnd {
		y.own.reset()
		y.own.patchPod(b.before)
		f.refused(b.what, f.patch(f.podPath()+"/status", b.patch))
	}
	f.withoutEffect()
	y.own.reset()
	y.own.must(f.patch(f.podPath()+"/status", `{"status":{"phase":"Failed"}}`)) // of a pod with no room for a reason
	f.unscheduled()
	f.protected()
	f.events()
	f.leases()
	f.records()
}

func (f *thief) podPath() string { return "namespaces/" + victims + "/pods/" + f.own.pod.Name }

func (f *thief) patch(path, body string) error {
	return f.rest.Patch(types.MergePatchType).AbsPath("/api/v1/" + path).Body([]byte(body)).Do(f.t.Context()).Error()
}

func (f *thief) refused(what string, err error) {
	f.t.Helper()
	if !apierrors.IsForbidden(err) || !refusedByPolicy(err.Error()) {
		f.t.Errorf("%s: not refused by the policy: %v", what, err)
	}
}

// withoutEffect compares the objects with their earlier state.
func (f *thief) withoutEffect() {
	f.own.reset()
	paths := map[string]string{"nodes": "nodes/" + f.own.node + "/status", "node": "nodes/" + f.own.node, "pods": f.podPath() + "/status"}
	for _, b := range withoutEffect {
		before := f.objects()
		if err := f.patch(paths[b.resource], b.patch); err != nil {
			f.refused(b.what, err)
		}
		ignore := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields")
		if diff := cmp.Diff(before, f.objects(), ignore); diff != "" {
			f.t.Errorf("%s (-before +after):\n%s", b.what, diff)
		}
	}
}

func (f *thief) objects() []any {
	pod, err := f.admin.CoreV1().Pods(victims).Get(f.t.Context(), f.own.pod.Name, metav1.GetOptions{})
	f.own.must(err)
	return []any{f.own.object(), pod}
}

// unscheduled checks that a pod without a node is on no agent's node.
func (f *thief) unscheduled() {
	nowhere := f.own.pod.DeepCopy()
	nowhere.ObjectMeta = metav1.ObjectMeta{Name: "nowhere", Namespace: victims}
	nowhere.Spec.NodeName, nowhere.Spec.SchedulerName = "", "none"
	_, err := f.admin.CoreV1().Pods(victims).Create(f.t.Context(), nowhere, metav1.CreateOptions{})
	f.own.must(err)
	f.refused("evict an unscheduled pod", f.patch("namespaces/"+victims+"/pods/nowhere/status", `{"status":{"phase":"Failed","reason":"Evicted"}}`))
}

// events tries events in the name of other components, or about objects outside an agent's
// duties.
func (f *thief) events() {
	for what, e := range map[string]corev1.Event{
		"as the kubelet":     {Source: corev1.EventSource{Component: "kubelet", Host: f.own.node}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "x"}},
		"as another agent":   {Source: corev1.EventSource{Component: "plimsoll", Host: f.other.node}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "x"}},
		"without a source":   {InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "x"}},
		"about another node": {Source: corev1.EventSource{Component: "plimsoll", Host: f.own.node}, InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: f.other.node}},
		"about a Secret":     {Source: corev1.EventSource{Component: "plimsoll", Host: f.own.node}, InvolvedObject: corev1.ObjectReference{Kind: "Secret", Name: "x"}},
		"without an object":  {Source: corev1.EventSource{Component: "plimsoll", Host: f.own.node}},
	} {
		e.GenerateName, e.InvolvedObject.Namespace = "thief-", "default"
		_, err := f.core.CoreV1().Events("default").Create(f.t.Context(), &e, metav1.CreateOptions{})
		f.refused("an event "+what, err)
	}
	others := corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Source: corev1.EventSource{Component: "plimsoll", Host: f.other.node},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "x", Namespace: "default"}, Reason: "Evicted"}
	_, err := f.admin.CoreV1().Events("default").Create(context.Background(), &others, metav1.CreateOptions{})
	f.own.must(err)
	f.refused("change another agent's event", f.patch("namespaces/default/events/theirs", `{"reason":"Fine"}`))
	f.refused("change the source of another agent's event", f.patch("namespaces/default/events/theirs", `{"source":{"host":"`+f.own.node+`"}}`))
}

// leases tries the leases of others: their holder leads the controllers.
func (f *thief) leases() {
	f.own.leaseOf(namespace, "plimsoll-controller")
	for _, name := range []string{"plimsoll-controller", f.other.node} {
		f.own.leaseOf(namespace, name)
		leases := f.core.CoordinationV1().Leases(namespace)
		l, err := leases.Get(f.t.Context(), name, metav1.GetOptions{})
		f.own.must(err)
		_, err = leases.Update(f.t.Context(), l, metav1.UpdateOptions{})
		f.refused("renew the lease "+name, err)
		l.ObjectMeta = metav1.ObjectMeta{GenerateName: f.own.node + "-"}
		_, err = leases.Create(f.t.Context(), l, metav1.CreateOptions{})
		f.refused("a lease of a new name", err)
	}
	f.finalizers()
	f.filled()
}

// finalizers tries leases of the own node that could not be deleted. A finalizer of another component does not
// prevent a renewal.
func (f *thief) finalizers() {
	f.own.reset()
	forever, dryRun := []string{"example.com/forever"}, []string{metav1.DryRunAll}
	for _, in := range []string{namespace, corev1.NamespaceNodeLease} {
		leases := f.core.CoordinationV1().Leases(in)
		made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: f.own.node, Finalizers: forever}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &f.own.node}}
		_, err := leases.Create(f.t.Context(), made, metav1.CreateOptions{DryRun: dryRun})
		f.refused("create a lease with a finalizer in "+in, err)
		f.own.leaseOf(in, f.own.node)
		own, err := leases.Get(f.t.Context(), f.own.node, metav1.GetOptions{})
		f.own.must(err)
		own.Spec.HolderIdentity, own.Finalizers = &f.own.node, forever
		_, err = leases.Update(f.t.Context(), own, metav1.UpdateOptions{DryRun: dryRun})
		f.refused("add a finalizer to a lease in "+in, err)

		byAdmin := f.admin.CoordinationV1().Leases(in)
		own, err = byAdmin.Update(f.t.Context(), own, metav1.UpdateOptions{})
		f.own.must(err)
		_, err = leases.Update(f.t.Context(), own, metav1.UpdateOptions{DryRun: dryRun})
		f.own.must(err)
		own.Finalizers = nil
		_, err = byAdmin.Update(f.t.Context(), own, metav1.UpdateOptions{})
		f.own.must(err)
	}
}

// filled tries texts that an agent preserves when it renews its lease: they could leave no room for its own.
func (f *thief) filled() {
	f.own.reset()
	f.own.leased()
	leases, dryRun, long := f.core.CoordinationV1().Leases(namespace), []string{metav1.DryRunAll}, strings.Repeat("x", 1000)
	for about, change := range map[string]func(*coordinationv1.Lease){
		"a label":                 func(l *coordinationv1.Lease) { l.Labels = map[string]string{"app": "x"} },
		"an annotation of others": func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"example.com/text": long} },
		"a long last eviction":    func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"plimsoll.dev/last-eviction": long} },
	} {
		made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: f.own.node}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &f.own.node}}
		change(made)
		_, err := leases.Create(f.t.Context(), made, metav1.CreateOptions{DryRun: dryRun})
		f.refused("create a lease with "+about, err)
		own, err := leases.Get(f.t.Context(), f.own.node, metav1.GetOptions{})
		f.own.must(err)
		own.Spec.HolderIdentity = &f.own.node
		change(own)
		_, err = leases.Update(f.t.Context(), own, metav1.UpdateOptions{DryRun: dryRun})
		f.refused("renew a lease with "+about, err)
	}
}

// records tries the records of other nodes, and one that could not be deleted.
func (f *thief) records() {
	f.own.reset()
	f.other.reset()
	f.own.recorded()
	f.other.recorded()
	maps := f.core.CoreV1().ConfigMaps(evictions)
	theirs, err := maps.Get(f.t.Context(), f.other.node, metav1.GetOptions{})
	f.own.must(err)
	theirs.Data = map[string]string{"evictions": ""}
	_, err = maps.Update(f.t.Context(), theirs, metav1.UpdateOptions{})
	f.refused("empty the record of another node", err)
	_, err = maps.Create(f.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: f.own.node + "-"}}, metav1.CreateOptions{})
	f.refused("a record of a new name", err)
	own, err := maps.Get(f.t.Context(), f.own.node, metav1.GetOptions{})
	f.own.must(err)
	own.Finalizers = []string{"example.com/forever"}
	_, err = maps.Update(f.t.Context(), own, metav1.UpdateOptions{})
	f.refused("a record with a finalizer", err)
	for about, change := range map[string]func(*corev1.ConfigMap){
		"a record with a label":       func(m *corev1.ConfigMap) { m.Labels = map[string]string{"grafana_dashboard": "1"} },
		"a record with an annotation": func(m *corev1.ConfigMap) { m.Annotations = map[string]string{"example.com/copy-to": "all"} },
		"a record with another key":   func(m *corev1.ConfigMap) { m.Data["dashboard.json"] = "{}" },
		"a record with binary data":   func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"x": {1}} },
		"an immutable record":         func(m *corev1.ConfigMap) { m.Immutable = new(true) },
		"a record of 32,769 letters":  func(m *corev1.ConfigMap) { m.Data["evictions"] = strings.Repeat("x", 32<<10+1) },
	} {
		own, err := maps.Get(f.t.Context(), f.own.node, metav1.GetOptions{})
		f.own.must(err)
		if own.Data == nil {
			own.Data = map[string]string{}
		}
		change(own)
		_, err = maps.Update(f.t.Context(), own, metav1.UpdateOptions{})
		f.refused(about, err)
	}
}
