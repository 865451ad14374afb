package nodestatus

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

// fakeAPI is a fake API server with one node and injected faults.
type fakeAPI struct {
	*fake.Clientset
	t     *testing.T
	mu    sync.Mutex
	fault map[string]error // by verb and resource, such as "patch nodes/status"
	hangs bool             // patches of nodes get no response
	loses bool             // patches of nodes are applied, but the response is lost
	calls map[string]int
}

func newAPI(t *testing.T, n *corev1.Node) *fakeAPI {
	a := &fakeAPI{Clientset: fake.NewClientset(n), t: t, fault: map[string]error{}, calls: map[string]int{}}
	a.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		key := action.GetVerb() + " " + action.GetResource().Resource
		if sub := action.GetSubresource(); sub != "" {
			key += "/" + sub
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls[key]++
		if err := a.fault[key]; err != nil {
			return true, nil, err
		}
		return false, nil, nil
	})
	return a
}

// fail makes a call return an error; nil removes the fault.
func (a *fakeAPI) fail(call string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault[call] = err
}

// called returns the number of calls of a kind.
func (a *fakeAPI) called(call string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[call]
}

func (a *fakeAPI) hang(hangs bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hangs = hangs
}

func (a *fakeAPI) loseAnswers(loses bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loses = loses
}

func (a *fakeAPI) line() (hangs, loses bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hangs, a.loses
}

// CoreV1 makes patches of nodes hang: the fake ignores contexts.
func (a *fakeAPI) CoreV1() typedcorev1.CoreV1Interface { return hangingCore{a.Clientset.CoreV1(), a} }

var _ kubernetes.Interface = (*fakeAPI)(nil)

type hangingCore struct {
	typedcorev1.CoreV1Interface
	api *fakeAPI
}

func (c hangingCore) Nodes() typedcorev1.NodeInterface {
	return hangingNodes{c.CoreV1Interface.Nodes(), c.api}
}

type hangingNodes struct {
	typedcorev1.NodeInterface
	api *fakeAPI
}

func (n hangingNodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*corev1.Node, error) {
	hangs, loses := n.api.line()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer, err := n.NodeInterface.Patch(ctx, name, kind, data, o, sub...)
	if loses {
		return nil, io.ErrUnexpectedEOF
	}
	return answer, err
}

// node returns the Node of the API server.
func (a *fakeAPI) node() *corev1.Node {
	a.t.Helper()
	n, err := a.Clientset.CoreV1().Nodes().Get(context.Background(), "n", metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// status returns the status of a condition, or an empty one.
func (a *fakeAPI) status(kind string) corev1.ConditionStatus {
	a.t.Helper()
	if p := find(a.node(), corev1.NodeConditionType(kind)); p != nil {
		return p.Status
	}
	return ""
}

// change changes the Node like another program.
func (a *fakeAPI) change(do func(*corev1.Node)) {
	a.t.Helper()
	n := a.node()
	do(n)
	if err := a.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
		a.t.Fatal(err)
	}
}

// lease reads a lease, or returns nil.
func (a *fakeAPI) lease(namespace string) *coordinationv1.Lease {
	object, err := a.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace, "n")
	if err != nil {
		return nil
	}
	l, _ := object.(*coordinationv1.Lease)
	return l
}

// pass advances virtual time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
