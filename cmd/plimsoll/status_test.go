package main

import (
	"log/slog"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/apiserver"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/ladder"
	"plimsoll.dev/plimsoll/metrics"
	"plimsoll.dev/plimsoll/podstatus"
	"plimsoll.dev/plimsoll/signal"
)

// What the controller is asked for is published as long as there is such a pod.
func TestARequestEndsWithItsPod(t *testing.T) {
	var published []podstatus.Request
	soft, err := podstatus.NewSoft("controller", nil, func(all []podstatus.Request) { published = all })
	if err != nil {
		t.Fatal(err)
	}
	r := &requests{soft: soft, pods: &apiPods{Pods: apiserver.WatchPods(t.Context(), &apiserver.Connection{}, nil, nil)},
		metrics: metrics.New(metrics.Settings{}), safety: flagged(false), log: slog.New(slog.DiscardHandler), standing: map[string]podstatus.Notice{}}
	pod := signal.Pod{UID: "a-1", Namespace: "default", Name: "p"}
	n := ladder.Notice{Eviction: &eviction.Eviction{Pod: &pod, Cause: "memory.available"}, Decided: time.Now()}
	if _, err := r.Request(t.Context(), n, time.Minute); err != nil {
		t.Fatal(err)
	}
	if r.forget(t.Context(), []signal.Pod{pod}); len(published) != 1 {
		t.Errorf("published %v, want the request", published)
	}
	if r.forget(t.Context(), nil); len(published) != 0 {
		t.Errorf("published %v after the pod has ended", published)
	}
}
