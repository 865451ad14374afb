package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/internal/kube/client"
)

func TestDialNeedsAServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := client.Dial(client.Options{}); !errors.Is(err, client.ErrNoServer) {
		t.Errorf("without any server: %v", err)
	}
	if _, err := client.Dial(client.Options{Kubeconfig: "/nowhere/kubeconfig"}); err == nil || errors.Is(err, client.ErrNoServer) {
		t.Errorf("with a kubeconfig that is not there: %v", err)
	}
}

// Each client has a connection of its own, and nothing limits its requests.
func TestAControllersClients(t *testing.T) {
	s := newServer(t, true)
	var mu sync.Mutex
	connections := map[string]bool{}
	inner := s.Config.Handler
	counted := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connections[r.RemoteAddr] = true
		mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	counted.EnableHTTP2, counted.TLS = true, s.TLS.Clone()
	counted.StartTLS()
	defer counted.Close()
	c, err := client.Dial(client.Options{Kubeconfig: s.kubeconfig(t, counted.URL), Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for range 100 {
		for _, client := range []kubernetes.Interface{c.Watching, c.Writing, c.Electing} {
			if _, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if took := time.Since(begun); took > 10*time.Second { // at 5 a second, client-go's default, a minute
		t.Errorf("300 requests took %s: somebody limits them", took)
	}
	if len(connections) != 3 {
		t.Errorf("three clients share %d connections", len(connections))
	}
}

func TestAnElectionDoesNotWaitForASilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := newServer(t, true)
	c, err := client.Dial(client.Options{Kubeconfig: s.kubeconfig(t, "https://"+silent.Addr().String()), Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = c.Electing.CoordinationV1().Leases("a").Get(ctx, "b", metav1.GetOptions{})
	if err == nil || ctx.Err() != nil {
		t.Errorf("%v, and the caller's own patience ended: %v", err, ctx.Err())
	}
}
