package apitest

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Fake is client-go's fake of an API server, with one node and injected faults.
type Fake struct {
	*fake.Clientset
	t     testing.TB
	name  string // of the node
	mu    sync.Mutex
	fault map[string]error // by verb and resource, such as "patch nodes/status"
	calls map[string]int
}

// NewFake returns an API server with the node.
func NewFake(t testing.TB, n *corev1.Node) *Fake {
	a := &Fake{Clientset: fake.NewClientset(n), t: t, name: n.Name, fault: map[string]error{}, calls: map[string]int{}}
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

// Fail makes a call, such as "patch nodes/status", return an error; nil removes the fault.
func (a *Fake) Fail(call string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault[call] = err
}

// Called returns the number of calls of a kind.
func (a *Fake) Called(call string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[call]
}

// Node returns the Node of the API server.
func (a *Fake) Node() *corev1.Node {
	a.t.Helper()
	n, err := a.CoreV1().Nodes().Get(context.Background(), a.name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// Change changes the Node like another program.
func (a *Fake) Change(do func(*corev1.Node)) {
	a.t.Helper()
	n := a.Node()
	do(n)
	if err := a.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
		a.t.Fatal(err)
	}
}
