package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// Node is a sandbox node with the manifests of its pods.
type Node struct {
	*sandbox.Node
	Dir  string // contains pods/ and state.json
	hogs []*sandbox.Hog
}

// NewNode creates a node with a memory limit in bytes. The caller closes it. Returns an error
// if the sandbox or its directory can not be created.
func NewNode(name string, limit int64, options ...sandbox.Option) (*Node, error) {
	n, err := sandbox.NewNode(name, limit, options...)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "plimsoll-trial-")
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	t := &Node{Node: n, Dir: dir}
	if err := os.Mkdir(t.Manifests(), 0o700); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Manifests returns the directory of the pods' manifests.
func (n *Node) Manifests() string { return filepath.Join(n.Dir, "pods") }

// DisarmFile returns the path of the file that disarms the node's agent.
func (n *Node) DisarmFile() string { return filepath.Join(n.Dir, "disarm") }

// Close ends the processes in the node and removes all its files and cgroups. Returns the
// errors of all steps.
func (n *Node) Close() error {
	err := n.Node.Close()
	for _, h := range n.hogs {
		_ = h.Close() // it has exited with the node
	}
	return errors.Join(err, os.RemoveAll(n.Dir))
}

// AddPod creates a burstable pod from the spec of its manifest (YAML, flow style), with the
// named containers; default: one, app. Its UID is "uid-NAME". Returns an error if a cgroup or
// the manifest can not be created.
func (n *Node) AddPod(name, spec string, containers ...string) (*sandbox.Pod, error) {
	if len(containers) == 0 {
		containers = []string{"app"}
	}
	if spec == "" {
		spec = "{containers: [{name: app, image: hog}]}"
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-%s}\nspec: %s\n", name, name, spec)
	if err := os.WriteFile(filepath.Join(n.Manifests(), name+".yaml"), []byte(manifest), 0o600); err != nil {
		return nil, err
	}
	return n.Node.AddPod("uid-"+name, sandbox.Burstable, containers...)
}

// Forget removes the manifest of a dead pod. Its cgroups stay, because they contain the
// kernel's count of OOM kills. Returns the error of the removal.
func (n *Node) Forget(name string) error {
	return os.Remove(filepath.Join(n.Manifests(), name+".yaml"))
}

// AddHog creates a pod and starts a hog in it. Returns an error if one of them fails.
func (n *Node) AddHog(ctx context.Context, name, spec string) (*sandbox.Hog, error) {
	pod, err := n.AddPod(name, spec)
	if err != nil {
		return nil, err
	}
	h, err := n.StartHog(ctx, pod, "app")
	if err != nil {
		return nil, err
	}
	n.hogs = append(n.hogs, h)
	return h, nil
}

// Requesting returns the spec of a pod that requests memory.
func Requesting(memory string) string {
	return "{containers: [{name: app, image: hog, resources: {requests: {memory: " + memory + "}}}]}"
}

// NoPeriodicCheck disables periodic checks in a trial: by chance one would coincide with a dip,
// and rightly evict.
const NoPeriodicCheck = "--monitoring-period=1h"

// Start runs the agent on the node. Without other arguments it has a hard memory threshold
// only. Returns an error if the agent exits before it monitors the node.
func (n *Node) Start(ctx context.Context, binary string, args ...string) (*Agent, error) {
	return Start(ctx, binary, append([]string{
		"--node-cgroup=" + n.Path(),
		"--pod-manifests=" + n.Manifests(),
		"--state-file=" + filepath.Join(n.Dir, "state.json"),
		"--disarm-file=" + n.DisarmFile(),
		"--enforce-node-allocatable=none",
		"--container-runtime-endpoint=none",
		"--kubelet-config=/none",
		"--healthz-bind-address=",
	}, args...)...)
}

// Available returns the node's limit less its usage in bytes; page cache counts as used.
// Returns the error of a failed read.
func (n *Node) Available() (int64, error) {
	used, err := n.Usage()
	return n.Limit() - used, err
}

// Crossing delivers the time at which less than the given bytes are available. It polls every
// millisecond until ctx ends.
func (n *Node) Crossing(ctx context.Context, below int64) <-chan time.Time {
	crossed := make(chan time.Time, 1)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if left, err := n.Available(); err == nil && left < below {
					crossed <- time.Now()
					return
				}
			}
		}
	}()
	return crossed
}

// Binary returns the path of the plimsoll binary: the environment variable PLIMSOLL, or
// bin/plimsoll of the checkout. Returns an error if it does not exist.
func Binary() (string, error) {
	if named := os.Getenv("PLIMSOLL"); named != "" {
		return named, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !strings.HasSuffix(dir, "/") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			binary := filepath.Join(dir, "bin", "plimsoll")
			_, err := os.Stat(binary)
			return binary, err
		}
		dir = filepath.Dir(dir)
	}
	return "", errors.New("no checkout of plimsoll above the working directory: name the binary in the environment variable PLIMSOLL")
}
