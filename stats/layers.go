package stats

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// layersTimeout bounds the wait of a regular measurement for a runtime. After it, directories are
// measured without layers rather than late.
const layersTimeout = 2 * time.Second

// queryRuntime queries the runtime for a regular measurement, which it delays by at most layersTimeout.
// Returns the last error in the pause after no answer.
func (d *Directories) queryRuntime(ctx context.Context) error {
	d.mu.Lock()
	last := d.unanswered
	d.mu.Unlock()
	if err := last.paused(); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, layersTimeout)
	defer cancel()
	err := d.readLayers(asking)
	if err == nil {
		err = d.readDeadContainers(asking)
	}
	err = last.note(ctx, asking, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unanswered = last
	return err
}

// layers are the writable layers that the runtime reports: of running containers and, with
// containerd, of dead ones.
type layers struct {
	at       time.Time
	byID     map[string]cri.ContainerStats
	byPod    map[string][]string // IDs of the containers, by the UID of their pod
	reported bool                // the size of any layer
}

// readLayers queries the runtime until ctx ends. While it does not answer, its last answer is used
// until it expires.
func (d *Directories) readLayers(ctx context.Context) error {
	if d.options.Layers == nil {
		return nil
	}
	at := time.Now()
	found, err := d.options.Layers(ctx)
	if err != nil {
		return fmt.Errorf("read the sizes of writable layers from the container runtime: %w", err)
	}
	l := layers{at: at, byID: make(map[string]cri.ContainerStats, len(found)), byPod: map[string][]string{}}
	for _, c := range found {
		l.byID[c.ID] = c
		l.reported = l.reported || c.WritableBytes.Known || c.WritableInodes.Known
		if c.PodUID != "" {
			l.byPod[c.PodUID] = append(l.byPod[c.PodUID], c.ID)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !at.Before(d.layers.at) { // else another request, sent later, was answered first
		d.layers = l
	}
	d.unanswered.until = time.Time{}
	return nil
}

// Waiting for a runtime that measures writable layers in the background, as containerd does
// every 10 s (stats_collect_period).
const (
	layersWait = 15 * time.Second
	layersPace = 250 * time.Millisecond
)

// AwaitLayers queries the runtime for the sizes of writable layers until all were measured
// after since. Older sizes do not show which pod has filled the disk since, so a wrong pod
// could be evicted. It waits for at most 15 s, also for a single answer: a runtime answers late
// while the disk is busy, which is when this is called. It does not wait for a runtime that fails,
// reports no time of measurement, or reports no layers.
//
// Returns an error if the runtime does not answer, or some layers are still older at the end.
func (d *Directories) AwaitLayers(ctx context.Context, since time.Time) error {
	if d.options.Layers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, layersWait)
	defer cancel()
	tick := time.NewTicker(layersPace)
	defer tick.Stop()
	for {
		if err := d.readLayers(ctx); err != nil {
			return err
		}
		old := d.layersBefore(since)
		if old == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the container runtime has not measured %d writable layers since %s: earlier values are used", old, since.Format(time.TimeOnly))
		case <-tick.C:
		}
	}
}

// layersBefore counts the layers that were last measured before a time.
func (d *Directories) layersBefore(since time.Time) (old int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.layers.reported {
		return 0
	}
	for _, c := range d.layers.byID {
		known := c.WritableBytes.Known || c.WritableInodes.Known
		if !known || !c.WritableTime.IsZero() && c.WritableTime.Before(since) {
			old++
		}
	}
	return old
}

// of returns the size of a container's layer, unknown without the container's ID.
func (l *layers) of(id string) (u signals.FilesystemUsage) {
	found, reported := l.byID[id]
	if !reported || id == "" {
		return u
	}
	if found.WritableBytes.Known {
		u.Bytes = signals.Of(signals.Bytes(found.WritableBytes.Value))
	}
	if found.WritableInodes.Known {
		u.Inodes = signals.Of(signals.Inodes(found.WritableInodes.Value))
	}
	return u
}
