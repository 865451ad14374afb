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

// A Node is a sandbox node with the manifests of its pods.
type Node struct {
	*sandbox.Node
	Dir  string // holds pods/ and state.json
	hogs []*sandbox.Hog
}

// NewNode makes a node with a memory limit in bytes. The caller closes it.
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

// Manifests is the directory of the pods' manifests.
func (n *Node) Manifests() string { return filepath.Join(n.Dir, "pods") }

// DisarmFile is the file that disarms the node's agent.
func (n *Node) DisarmFile() string { return filepath.Join(n.Dir, "disarm") }

// Close ends what runs in the node and removes everything.
func (n *Node) Close() error {
	err := n.Node.Close()
	for _, h := range n.hogs {
		_ = h.Close() // ended with the node
	}
	return errors.Join(err, os.RemoveAll(n.Dir))
}

// AddPod makes a burstable pod from the spec of its manifest (YAML, flow style),
// with the containers named, or one, app; its UID is "uid-NAME".
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

// Forget removes the manifest of a pod that has ended. Its cgroups stay, empty:
// with them the kernel would forget whom it killed there.
func (n *Node) Forget(name string) error {
	return os.Remove(filepath.Join(n.Manifests(), name+".yaml"))
}

// AddHog makes a pod and starts a hog in it.
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

// Requesting is the spec of a pod that requests memory.
func Requesting(memory string) string {
	return "{containers: [{name: app, image: hog, resources: {requests: {memory: " + memory + "}}}]}"
}

// NoRegularLook keeps the look that decides as the kubelet out of a trial: by
// chance it would find a dip, and rightly act.
const NoRegularLook = "--monitoring-period=1h"

// Start runs the agent on the node, with a hard memory threshold only unless
// the arguments say otherwise.
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

// Available is what is left of the node's limit; page cache counts as used.
func (n *Node) Available() (int64, error) {
	used, err := n.Usage()
	return n.Limit() - used, err
}

// Crossing says when less than so many bytes are available, looking every
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

// Binary says where the plimsoll binary is: what the environment variable
// PLIMSOLL names, else bin/plimsoll of the checkout.
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
