package sandbox

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

// Hog is a running hog and its driver.
type Hog struct {
	*hog.Driver
	Process *Process
}

// StartHog starts a hog in a container and waits until it runs. The binary's main or TestMain
// must call [hog.RunIfSet]. The caller closes the driver or the node. Returns [hog.ErrEnded]
// if the hog exits before it is ready.
func (n *Node) StartHog(ctx context.Context, p *Pod, container string) (*Hog, error) {
	d, err := hog.New()
	if err != nil {
		return nil, err
	}
	started, err := n.Start(p, container, d.Cmd)
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	if err := d.Ready(ctx); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("wait for the hog in pod %s: %w: does main or TestMain call hog.RunIfSet?", p.UID, err)
	}
	return &Hog{Driver: d, Process: started}, nil
}

// Warm touches the given number of bytes (at most [MaxLimit] less 64 MiB) once and releases
// them, inside a separate node, and returns the duration. Memory that a virtual machine has
// never touched fills several times slower, so call Warm before measuring rates. Returns an
// error if the node or the hog fails.
func Warm(ctx context.Context, bytes int64) (took time.Duration, err error) {
	n, err := NewNode("warm", MaxLimit)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closeErr := n.Close(); err == nil {
			err = closeErr
		}
	}()
	p, err := n.AddPod("warm", Guaranteed, "main")
	if err != nil {
		return 0, err
	}
	r, err := n.StartHog(ctx, p, "main")
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.Do(ctx, fmt.Sprintf("fill %d", min(bytes, MaxLimit-64<<20)))
}
