package nodestatus

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
)

// fakeAPI is a fake API server whose patches of nodes can fail like a connection.
type fakeAPI struct {
	*apitest.Fake
	t     *testing.T
	mu    sync.Mutex
	hangs bool // patches of nodes get no response
	loses bool // patches of nodes are applied, but the response is lost
}

func newAPI(t *testing.T, n *corev1.Node) *fakeAPI {
	return &fakeAPI{Fake: apitest.NewFake(t, n), t: t}
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

// status returns the status of a condition, or an empty one.
func (a *fakeAPI) status(kind string) corev1.ConditionStatus {
	a.t.Helper()
	if p := find(a.Node(), corev1.NodeConditionType(kind)); p != nil {
		return p.Status
	}
	return ""
}

// pass advances virtual time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
