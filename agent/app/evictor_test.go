package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/test/harness/bulk"
)

// marks implements podstatus.Soft and stores the pods with a request.
type marks map[string]bool

func (m marks) Request(_ context.Context, n podstatus.Notice, _ int64) (podstatus.Answer, error) {
	m[n.UID] = true
	return podstatus.Answer{Outcome: podstatus.Asked}, nil
}

func (m marks) Withdraw(_ context.Context, n podstatus.Notice) error {
	delete(m, n.UID)
	return nil
}

// podsOfServer returns the pods of an API server, none, which it sends once the channel is closed.
func podsOfServer(t *testing.T, sends chan struct{}) *apiPods {
	t.Helper()
	empty := &bulk.Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-sends:
			empty.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return &apiPods{Pods: client.WatchPods(t.Context(), connect(t, server.URL, nil), nil, nil)}
}

// connect returns a connection to an API server at an address.
func connect(t *testing.T, url string, failed func(*http.Request)) *client.Connection {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + url + "'}}]\ncontexts: [{name: c, context: {cluster: c}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.Connect(client.Options{Kubeconfig: kubeconfig, NodeName: "n", Failed: failed, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSoftEvictions_ForgottenWithPodOrWithdrawn(t *testing.T) {
	set, sends := marks{}, make(chan struct{})
	r := &softEvictions{soft: set, pods: podsOfServer(t, sends),
		metrics: metrics.New(metrics.Settings{}), arming: stateWithoutFile(false), log: slog.New(slog.DiscardHandler), outstanding: map[string]podstatus.Notice{}}
	ended, running := signals.Pod{UID: "a-1", Namespace: "default", Name: "p"}, signals.Pod{UID: "a-2", Namespace: "default", Name: "q"}
	for _, pod := range []*signals.Pod{&ended, &running} {
		n := evict.Notice{Eviction: &eviction.Eviction{Pod: pod, Cause: "memory.available"}, Decided: time.Now()}
		if _, err := r.Request(t.Context(), n, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if r.forgetEnded([]signals.Pod{running}); len(r.outstanding) != 1 || !set["a-1"] {
		t.Errorf("outstanding %v, want the running pod", r.outstanding)
	}
	if r.withdrawAll(t.Context()) || set["a-2"] {
		t.Errorf("%v after withdrawAll, want none; an earlier agent may have left one", set)
	}
	close(sends)
	repeat(t.Context(), time.Millisecond, func() bool { return !r.pods.Synced() })
	if !r.withdrawAll(t.Context()) {
		t.Error("requests are left after the list of pods")
	}
}

func TestStatusNotice_HasMessageAndExplanation(t *testing.T) {
	pods := &apiPods{Pods: client.WatchPods(t.Context(), &client.Connection{}, nil, nil)}
	e := &eviction.Eviction{Pod: &signals.Pod{UID: "u", Namespace: "default", Name: "p"}, Cause: "memory.available", Message: "The kubelet's. ", Explanation: "One sentence."}
	n := statusNotice(evict.Notice{Eviction: e, Decided: time.Now()}, pods)
	if n.Message != e.Message || n.Explanation != e.Explanation || n.UID != "u" {
		t.Errorf("%+v", n)
	}
}
