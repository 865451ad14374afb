package app

import (
	"context"
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

func TestSoftEvictions_ForgottenWithPodOrWithdrawn(t *testing.T) {
	set := marks{}
	r := &softEvictions{soft: set, pods: &apiPods{Pods: client.WatchPods(t.Context(), &client.Connection{}, nil, nil)},
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
	if !r.withdrawAll(t.Context()) || set["a-2"] {
		t.Errorf("%v after withdrawAll, want none", set)
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
