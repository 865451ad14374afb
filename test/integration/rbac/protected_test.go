package rbac_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// leaderLease is the default of leaderElectResourceName.
const leaderLease = "plimsoll-controller"

// protected changes a pod to one that agents never evict, or to a near miss.
var protected = []struct {
	what   string
	change func(*corev1.Pod)
	want   bool
}{
	{"a-mirror-pod", annotated("kubernetes.io/config.mirror", "0a1b"), true},
	{"a-static-pod", func(p *corev1.Pod) {
		p.Annotations = map[string]string{"kubernetes.io/config.mirror": "0a1b", "kubernetes.io/config.source": "file"}
	}, true},
	{"node-critical", classed("system-node-critical"), true},
	{"cluster-critical", classed("system-cluster-critical"), true},
	{"a-source-that-its-owner-wrote", annotated("kubernetes.io/config.source", "file"), false},
	{"an-ordinary-pod", func(*corev1.Pod) {}, false},
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func classed(class string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// protected tries to mark the pods that agents never evict. The policy must refuse exactly the
// pods that the agent's own rule protects.
func (f *thief) protected() {
	for _, c := range protected {
		pod := f.own.pod.DeepCopy()
		pod.ObjectMeta = metav1.ObjectMeta{Name: c.what, Namespace: victims}
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = nil, nil
		pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "", "" // not allowed in a mirror pod
		c.change(pod)
		made, err := f.admin.CoreV1().Pods(victims).Create(f.t.Context(), pod, metav1.CreateOptions{})
		f.own.must(err)
		known, err := agentpods.FromAPI(made)
		f.own.must(err)
		if got := known.Protection != signals.Unprotected; got != c.want {
			f.t.Errorf("%s: protected is %t in the agent's rule", c.what, got)
		}
		for _, patch := range []string{ // in this order: DisruptionTarget can not be removed
			`{"status":{"phase":"Failed","reason":"Evicted"}}`,
			`{"status":{"conditions":[{"type":"plimsoll.dev/EvictionRequested","status":"True"}]}}`,
			`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet"}]}}`,
		} {
			err := f.patch("namespaces/"+victims+"/pods/"+c.what+"/status", patch)
			switch {
			case c.want:
				f.refused("write "+patch+" to "+c.what, err)
			case err != nil:
				f.t.Errorf("write %s to %s: %v", patch, c.what, err)
			}
		}
	}
}

// leader tries to acquire the controllers' leader lease by the name of a node.
func (y *env) leader(t *testing.T) {
	p := newPlace(t, y.admin, leaderLease)
	client, err := kubernetes.NewForConfig(y.Bearer(token(t, y.admin, p.toPod())))
	p.must(err)
	f := &thief{y, t, client.CoreV1().RESTClient(), client}
	leases := client.CoordinationV1().Leases(namespace)
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaderLease}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	err = y.admin.CoordinationV1().Leases(namespace).Delete(t.Context(), leaderLease, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		p.must(err)
	}
	_, err = leases.Create(t.Context(), lease(leaderLease), metav1.CreateOptions{})
	f.refused("create the leader lease", err)
	for _, holder := range []string{"replica-1_ABC", "", leaderLease} {
		_, err := y.admin.CoordinationV1().Leases(namespace).Create(t.Context(), lease(holder), metav1.CreateOptions{})
		p.must(err)
		lease, err := leases.Get(t.Context(), leaderLease, metav1.GetOptions{})
		p.must(err)
		lease.Spec.HolderIdentity = new(leaderLease)
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		f.refused("acquire the leader lease of "+holder, err)
		p.must(y.admin.CoordinationV1().Leases(namespace).Delete(t.Context(), leaderLease, metav1.DeleteOptions{}))
	}
	_, err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease(leaderLease), metav1.CreateOptions{})
	p.must(err) // the node's own
	y.otherLease(t)
}

// otherLease checks that an agent can not acquire a lease of another holder, whatever the leader lease's
// name.
func (y *env) otherLease(t *testing.T) {
	y.own.reset()
	y.own.leaseOf(namespace, y.own.node)
	client, err := kubernetes.NewForConfig(y.Bearer(token(t, y.admin, y.own.toPod())))
	y.own.must(err)
	f := &thief{y, t, client.CoreV1().RESTClient(), client}
	for holder, free := range map[string]bool{"replica-1_ABC": false, "": true, y.own.node: true} {
		lease, err := y.admin.CoordinationV1().Leases(namespace).Get(t.Context(), y.own.node, metav1.GetOptions{})
		y.own.must(err)
		lease.Spec.HolderIdentity = &holder
		lease, err = y.admin.CoordinationV1().Leases(namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		y.own.must(err)
		lease.Spec.HolderIdentity = new(y.own.node)
		if _, err = client.CoordinationV1().Leases(namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); free {
			y.own.must(err)
			continue
		}
		f.refused("acquire a lease of another holder", err)
	}
	f.otherHolder()
}

// otherHolder checks that an agent writes no holder but its node. With another one, the policy would refuse
// every later renewal.
func (f *thief) otherHolder() {
	f.own.reset()
	dryRun := []string{metav1.DryRunAll}
	for _, in := range []string{namespace, corev1.NamespaceNodeLease} {
		leases := f.core.CoordinationV1().Leases(in)
		attempts := map[string]*string{"no holder": nil, "an empty holder": new(""), "another text": new("x"), "another node": &f.other.node}
		for about, holder := range attempts {
			made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: f.own.node}, Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
			_, err := leases.Create(f.t.Context(), made, metav1.CreateOptions{DryRun: dryRun})
			f.refused("create the lease of the node in "+in+" with "+about, err)
		}
		f.own.leaseOf(in, f.own.node)
		for about, holder := range attempts {
			lease, err := leases.Get(f.t.Context(), f.own.node, metav1.GetOptions{})
			f.own.must(err)
			lease.Spec.HolderIdentity = holder
			_, err = leases.Update(f.t.Context(), lease, metav1.UpdateOptions{DryRun: dryRun})
			f.refused("update the lease of the node in "+in+" with "+about, err)
		}
	}
}
