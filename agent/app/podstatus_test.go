package app

import (
	"log/slog"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// A request to the controller is published as long as its pod exists.
func TestSoftEvictions_EndWithTheirPod(t *testing.T) {
	var published []podstatus.Request
	soft, err := podstatus.NewSoft("controller", nil, func(all []podstatus.Request) { published = all })
	if err != nil {
		t.Fatal(err)
	}
	r := &softEvictions{soft: soft, pods: &apiPods{Pods: client.WatchPods(t.Context(), &client.Connection{}, nil, nil)},
		metrics: metrics.New(metrics.Settings{}), arming: stateWithoutFile(false), log: slog.New(slog.DiscardHandler), outstanding: map[string]podstatus.Notice{}}
	pod := signals.Pod{UID: "a-1", Namespace: "default", Name: "p"}
	n := evict.Notice{Eviction: &eviction.Eviction{Pod: &pod, Cause: "memory.available"}, Decided: time.Now()}
	if _, err := r.Request(t.Context(), n, time.Minute); err != nil {
		t.Fatal(err)
	}
	if r.withdrawEnded(t.Context(), []signals.Pod{pod}); len(published) != 1 {
		t.Errorf("published %v, want the request", published)
	}
	if r.withdrawEnded(t.Context(), nil); len(published) != 0 {
		t.Errorf("published %v after the pod has ended", published)
	}
}
