package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/test/demo/screen"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// A workload is one of the demo's pods and its process.
type workload struct {
	file string
	uses int64 // bytes of memory at the start
	hog  *sandbox.Hog
	pod  signals.Pod
}

// workloads returns the demo's pods. The leaking one is the last.
func workloads() []*workload {
	return []*workload{
		{file: "web.yaml", uses: 40 << 20},
		{file: "db.yaml", uses: 120 << 20},
		{file: "batch.yaml", uses: 45 << 20},
		{file: "leaky.yaml", uses: 10 << 20},
	}
}

// An env is the node with its pods and its agent.
type env struct {
	options   options
	screen    *screen.Screen
	node      *trial.Node
	workloads []*workload
	agent     *trial.Agent
}

func (e *env) leaky() *workload { return e.workloads[len(e.workloads)-1] }

// newEnv creates the node and starts its pods and the agent. On error it returns
// the unfinished env too, for close.
func newEnv(ctx context.Context, o options, s *screen.Screen) (*env, error) {
	e := &env{options: o, screen: s, workloads: workloads()}
	if err := sandbox.Sweep("demo"); err != nil {
		return e, fmt.Errorf("remove the remains of an earlier demo: %w", err)
	}
	var err error
	if e.node, err = trial.NewNode("demo", o.node); err != nil {
		return e, err
	}
	s.Node(e.node.Version())
	for _, w := range e.workloads {
		if err := e.start(ctx, w); err != nil {
			return e, err
		}
	}
	s.Pods(e.pods())
	hard := signals.Format(threshold, signals.UnitBytes)
	flags := []string{"--eviction-hard=memory.available<" + hard, "--monitoring-period=" + o.period.String()}
	if o.records != "" {
		flags = append(flags, "--recording-dir="+o.records)
	}
	if e.agent, err = e.node.Start(ctx, o.plimsoll, flags...); err != nil {
		return e, err
	}
	s.Agent()
	return e, nil
}

// start writes the manifest of a pod for the agent and runs the pod's process.
func (e *env) start(ctx context.Context, w *workload) error {
	text, err := manifests.ReadFile("pods/" + w.file)
	if err != nil {
		return err
	}
	pod, faults := agentpods.ParseManifest(text)
	if faults.Err() != nil {
		return faults
	}
	w.pod = pod
	if err := os.WriteFile(filepath.Join(e.node.Manifests(), w.file), text, 0o600); err != nil {
		return err
	}
	made, err := e.node.Node.AddPod(pod.UID, sandbox.Burstable, "app")
	if err != nil {
		return err
	}
	if w.hog, err = e.node.StartHog(ctx, made, "app"); err != nil {
		return err
	}
	if _, err := w.hog.Do(ctx, fmt.Sprintf("fill %d", w.uses)); err != nil {
		return fmt.Errorf("fill %d bytes of memory in %s: %w", w.uses, pod.Key(), err)
	}
	return nil
}

// pods returns the pods as the screen shows them.
func (e *env) pods() (pods []screen.Usage) {
	for _, w := range e.workloads {
		pods = append(pods, screen.Usage{Pod: w.pod.Key(), Uses: w.uses})
	}
	return pods
}

// survivors returns the pods with a running process, and those without one
// besides the evicted pod.
func (e *env) survivors(evicted string) (alive, lost []string) {
	for _, w := range e.workloads {
		switch key := w.pod.Key(); {
		case w.hog.Process.Alive():
			alive = append(alive, key)
		case key != evicted:
			lost = append(lost, key)
		}
	}
	return alive, lost
}

// close stops the agent and removes the node with its pods.
func (e *env) close() error {
	var errs []error
	if e.agent != nil {
		errs = append(errs, e.agent.Stop())
	}
	for _, w := range e.workloads {
		if w.hog != nil {
			_ = w.hog.Close() // it ends with the node
		}
	}
	if e.node != nil {
		errs = append(errs, e.node.Close())
	}
	return errors.Join(errs...)
}
