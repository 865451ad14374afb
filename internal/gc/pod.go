package gc

import (
	"context"
	"errors"
	"fmt"

	"plimsoll.dev/plimsoll/internal/cri"
)

// RemovePod removes the containers and sandboxes of an evicted pod, to free its writable layers;
// running containers are killed. A failed removal does not prevent the others. Returns the errors
// of failed removals; an already removed pod is no error.
//
// It waits for no turn: it does not change the state of a round or of Free, and concurrent
// removals of one object succeed.
func (c *Collector) RemovePod(ctx context.Context, uid string) error {
	if uid == "" {
		return errors.New("remove a pod: no UID was given, and containers without one are not of a pod")
	}
	sandboxes, containers, err := c.listed(ctx)
	if err != nil {
		return fmt.Errorf("remove pod %s: %w", uid, err)
	}
	sandboxes, containers = ofPod(uid, sandboxes, containers)
	var f faults
	s := c.newSweep(never)
	_, _, err = each(ctx, s, containers, &f, func(k *cri.Container) (bool, error) { return c.endContainer(ctx, k) })
	if err == nil {
		_, _, err = each(ctx, s, sandboxes, &f, func(b *cri.Sandbox) (bool, error) { return c.removeSandbox(ctx, b) })
	}
	f.add(err)
	if err := f.err(); err != nil {
		return fmt.Errorf("remove pod %s: %w", uid, err)
	}
	return nil
}
