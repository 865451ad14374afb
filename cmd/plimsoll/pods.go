package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/apiserver"
	"plimsoll.dev/plimsoll/cri"
	"plimsoll.dev/plimsoll/pods"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/state"
)

// A podSource knows the node's active pods; they must not be changed. It does
// not wait.
type podSource interface {
	pods() []signal.Pod
	// fault is why some may be missing, nil if none are.
	fault() error
}

// apiPods are the pods of the API server. Until it has answered, those of the
// state file serve; where there is none, those that the runtime names.
type apiPods struct {
	*apiserver.Pods
	choices *pods.Choices
	known   bool                   // the state file had some
	looks   atomic.Pointer[func()] // besides, when pods have changed
	renewed atomic.Pointer[func()] // likewise
	runtime atomic.Pointer[[]signal.Pod]
}

// savedPods is the section of the state file with the last known pods.
const savedPods = "pods"

func watchPods(ctx context.Context, c *apiserver.Connection, choices *pods.Choices, saved *state.Sections, log *slog.Logger) *apiPods {
	var known []signal.Pod
	if saved != nil {
		if err := saved.Load(savedPods, &known); err != nil {
			log.Error("the pods known before are not used", "error", err)
			known = nil
		}
	}
	a := &apiPods{choices: choices, known: len(known) > 0}
	ready := make(chan struct{})
	a.Pods = apiserver.WatchPods(ctx, c, known, func() {
		<-ready
		if saved != nil {
			saved.Save(savedPods, a.Active())
		}
		for _, look := range []*func(){a.looks.Load(), a.renewed.Load()} {
			if look != nil {
				(*look)()
			}
		}
	})
	close(ready)
	return a
}

func (a *apiPods) pods() []signal.Pod {
	if !a.Synced() && !a.known {
		if named := a.runtime.Load(); named != nil {
			return *named
		}
	}
	return a.Active()
}

func (a *apiPods) fault() error {
	if a.Synced() || a.known || a.runtime.Load() != nil {
		return nil
	}
	return a.Err()
}

// runtimePeriod is how often the runtime is asked for pods while nobody else
// knows them.
const runtimePeriod = 10 * time.Second

// askRuntime keeps what the runtime says of pods until the API server has
// answered.
func (a *apiPods) askRuntime(ctx context.Context, client *cri.Client) {
	again(ctx, runtimePeriod, func() bool {
		if a.Synced() || a.known {
			return false
		}
		if named, err := podsOfRuntime(ctx, client, a.choices); err == nil {
			a.runtime.Store(&named)
		}
		return true
	})
}

func podsOfRuntime(ctx context.Context, client *cri.Client, choices *pods.Choices) ([]signal.Pod, error) {
	sandboxes, err := client.Sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := client.Containers(ctx)
	if err != nil {
		return nil, err
	}
	return pods.FromRuntime(sandboxes, containers, choices), nil
}

// running lists the runtime's IDs of the containers of a pod that run now.
func running(client *cri.Client) func(ctx context.Context, uid string) ([]string, error) {
	return func(ctx context.Context, uid string) ([]string, error) {
		containers, err := client.Containers(ctx)
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, c := range containers {
			if c.PodUID == uid && c.State == cri.Running {
				ids = append(ids, c.ID)
			}
		}
		return ids, nil
	}
}
