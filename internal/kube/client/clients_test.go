package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

func TestDial_RequiresServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := client.Dial(client.Options{}); !errors.Is(err, client.ErrNoServer) {
		t.Errorf("without a server: got %v, want ErrNoServer", err)
	}
	if _, err := client.Dial(client.Options{Kubeconfig: "/nowhere/kubeconfig"}); err == nil || errors.Is(err, client.ErrNoServer) {
		t.Errorf("with a missing kubeconfig: %v", err)
	}
}

// Each client has a connection of its own without a rate limit.
func TestDial_ClientsAreSeparateAndUnlimited(t *testing.T) {
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
	c, err := client.Dial(client.Options{Kubeconfig: s.kubeconfig(t, counted.URL)})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for _, client := range []api.Interface{c.Watching, c.Writing, c.Electing} {
			if limited(client) {
				t.Error("a client has a rate limiter")
			}
			if _, err := client.Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(connections) != 3 {
		t.Errorf("three clients share %d connections", len(connections))
	}
}

func TestDial_ElectingTimesOutOnSilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := newServer(t, true)
	const timeout = 200 * time.Millisecond
	c, err := client.Dial(client.Options{Kubeconfig: s.kubeconfig(t, "https://"+silent.Addr().String()), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = c.Electing.Leases("a").Get(ctx, "b", metav1.GetOptions{})
	if err == nil || ctx.Err() != nil {
		t.Errorf("%v, and the caller's context ended: %v", err, ctx.Err())
	}
	if got := timeoutOf(t, c.Electing); got != timeout {
		t.Errorf("a request may take %v, want %v", got, timeout)
	}
}

// As in kubectl, each file may have a part, and a missing file is ignored.
func TestDialAsUser_MergesFilesOfKUBECONFIG(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	context := file("context", "current-context: b\ncontexts: [{name: b, context: {cluster: b, user: u}}]\n")
	clusters := file("clusters", "current-context: a\nclusters: [{name: a, cluster: {server: 'https://a.test'}}, {name: b, cluster: {server: 'https://b.test'}}]\n"+
		"contexts: [{name: a, context: {cluster: a, user: u}}]\nusers: [{name: u, user: {token: t}}]\n")
	missing := filepath.Join(dir, "missing")
	for name, tc := range map[string]struct {
		files           []string
		given           string
		context, server string
		fault           string
	}{
		"context from the first file":     {files: []string{missing, context, clusters}, context: "b", server: "https://b.test"},
		"another context in a later file": {files: []string{clusters, context}, context: "a", server: "https://a.test"},
		"empty entry":                     {files: []string{"", clusters}, context: "a", server: "https://a.test"},
		"--kubeconfig set":                {files: []string{context, clusters}, given: clusters, context: "a", server: "https://a.test"},
		"missing files":                   {files: []string{missing, missing + "-too"}, fault: missing + "-too: file does not exist"},
		"missing --kubeconfig":            {files: []string{clusters}, given: missing, fault: "missing"},
		"context without a cluster":       {files: []string{context}, fault: "use the kubeconfig " + context},
	} {
		t.Setenv("KUBECONFIG", strings.Join(tc.files, string(filepath.ListSeparator)))
		clients, err := client.DialAsUser(tc.given, "test")
		switch {
		case tc.fault != "":
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: %v, want %s", name, err, tc.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case clients.Context != tc.context || clients.Server != tc.server:
			t.Errorf("%s: got context %s at %s", name, clients.Context, clients.Server)
		}
	}
}
