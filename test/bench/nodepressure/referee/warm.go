package referee

import (
	"context"
	"errors"
	"fmt"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

// warmRest is what the process of Warm needs beside the memory that it touches.
const warmRest = 32 << 20

// Warm touches memory once in a node of its own, and releases it. Returns an error if that fails.
func Warm(ctx context.Context, bytes int64, scratch string) (err error) {
	bytes = min(bytes, arena.MaxLimit) - warmRest
	if bytes <= 0 {
		return nil
	}
	node, err := arena.New(arena.Options{Limit: bytes + warmRest})
	if err != nil {
		return err
	}
	s := &state{Run: Run{Scratch: scratch}}
	defer func() { err = errors.Join(err, s.close(node)) }()
	incident := spec.Incident{Name: "warm"}
	s.crew = &crew{plan: newPlan(incident, node.Gauge(), 0, 0), node: node, deaths: make(chan death, 1)}
	if err := s.directories(); err != nil {
		return err
	}
	pod := spec.Pod{Name: "warm", Count: 1}
	x, err := s.addPod(&pod, pod.Name, []hog.Program{{Before: []hog.Step{{Verb: "grow", Bytes: bytes}}}}, 0)
	if err != nil {
		return err
	}
	if err := s.await(ctx, x); err != nil {
		return fmt.Errorf("touch %d MiB once: %w", bytes>>20, err)
	}
	return nil
}
