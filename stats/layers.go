package stats

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/cri"
	"plimsoll.dev/plimsoll/signal"
)

// layersTimeout bounds the wait for a runtime: directories are measured
// without it rather than late.
const layersTimeout = 2 * time.Second

// layers are the writable layers of running containers. Those of dead ones are
// in no answer of a runtime, and count for nobody.
type layers struct {
	at   time.Time
	byID map[string]cri.ContainerStats
}

// readLayers asks the runtime. While it is away, what it said before goes on
// counting until it is too old.
func (d *Directories) readLayers(ctx context.Context) error {
	if d.options.Layers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, layersTimeout)
	defer cancel()
	at := time.Now()
	found, err := d.options.Layers(ctx)
	if err != nil {
		return fmt.Errorf("ask the container runtime for the sizes of writable layers: %w", err)
	}
	l := layers{at, make(map[string]cri.ContainerStats, len(found))}
	for _, c := range found {
		l.byID[c.ID] = c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.layers = l
	return nil
}

// of returns the size of a container's layer, unknown without the container's
// ID.
func (l *layers) of(k *signal.Container) (u signal.FilesystemUsage) {
	found, running := l.byID[k.ID]
	if !running || k.ID == "" {
		return u
	}
	if found.WritableBytes.Known {
		u.Bytes = signal.Of(signal.Bytes(found.WritableBytes.Value))
	}
	if found.WritableInodes.Known {
		u.Inodes = signal.Of(signal.Inodes(found.WritableInodes.Value))
	}
	return u
}
