package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// A role is one of the demo's pods and what it does.
type role struct {
	file string
	uses string // fills this much at the start
	hog  *sandbox.Hog
	pod  signals.Pod
}

// cast is the demo's pods. The leaking one is the last.
func cast() []*role {
	return []*role{
		{file: "web.yaml", uses: "40MiB"},
		{file: "db.yaml", uses: "120MiB"},
		{file: "batch.yaml", uses: "45MiB"},
		{file: "leaky.yaml", uses: "10MiB"},
	}
}

// A scene is the node with its pods and the agent that watches it.
type scene struct {
	options options
	node    *trial.Node
	roles   []*role
	agent   *trial.Agent
}

func (s *scene) leaky() *role { return s.roles[len(s.roles)-1] }

// setScene makes the node, starts its pods and the agent. On error what was
// made is returned too, to be closed.
func setScene(ctx context.Context, o options) (*scene, error) {
	if err := sandbox.Sweep("demo"); err != nil {
		return nil, fmt.Errorf("remove what an earlier demo left: %w", err)
	}
	s := &scene{options: o, roles: cast()}
	var err error
	if s.node, err = trial.NewNode("demo", o.node); err != nil {
		return s, err
	}
	fmt.Printf("The node: cgroup %s with %s of memory (cgroup v%d), evicting below %s available.\n",
		s.node.Path(), size(o.node), s.node.Version(), size(threshold))
	for _, r := range s.roles {
		if err := s.start(ctx, r); err != nil {
			return s, err
		}
	}
	s.agent, err = s.node.Start(ctx, o.plimsoll, "--eviction-hard=memory.available<"+size(threshold))
	if err == nil {
		fmt.Printf("The agent: plimsoll agent --node-cgroup=%s … (process %d)\n\n", s.node.Path(), s.agent.PID)
	}
	return s, err
}

// start writes the pod's manifest for the agent and runs its process.
func (s *scene) start(ctx context.Context, r *role) error {
	text, err := manifests.ReadFile("pods/" + r.file)
	if err != nil {
		return err
	}
	pod, faults := agentpods.ParseManifest(text)
	if faults.Err() != nil {
		return faults
	}
	r.pod = pod
	if err := os.WriteFile(filepath.Join(s.node.Manifests(), r.file), text, 0o600); err != nil {
		return err
	}
	made, err := s.node.Node.AddPod(pod.UID, sandbox.Burstable, "app")
	if err != nil {
		return err
	}
	if r.hog, err = s.node.StartHog(ctx, made, "app"); err != nil {
		return err
	}
	if _, err := r.hog.Do(ctx, "fill "+r.uses); err != nil {
		return fmt.Errorf("let %s use %s: %w", pod.Key(), r.uses, err)
	}
	fmt.Printf("  pod %-11s uses %-7s requests %-6s priority %d\n", pod.Key(), r.uses, pod.MemoryRequest, pod.Priority)
	return nil
}

// alive lists the pods whose process runs.
func (s *scene) alive() (keys []string) {
	for _, r := range s.roles {
		if r.hog.Process.Alive() {
			keys = append(keys, r.pod.Key())
		}
	}
	return keys
}

func (s *scene) close() error {
	var errs []error
	if s.agent != nil {
		errs = append(errs, s.agent.Stop())
	}
	for _, r := range s.roles {
		if r.hog != nil {
			_ = r.hog.Close() // it ends with the node
		}
	}
	if s.node != nil {
		errs = append(errs, s.node.Close())
	}
	return errors.Join(errs...)
}

func size(bytes int64) string { return signals.Format(signals.Amount(bytes), signals.UnitBytes) }
