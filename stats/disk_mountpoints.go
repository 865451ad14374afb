package stats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// How often the runtime is asked where it keeps things: soon again after a
// failure, else rarely, because it only changes with its configuration.
const (
	firstAskAgain = time.Second
	lastAskAgain  = 30 * time.Second
	askRegularly  = time.Minute
	locateTimeout = 10 * time.Second
)

// Run asks the container runtime where it keeps images and writable layers,
// again and again until ctx ends: a runtime that is away is asked with a
// back-off, and what it told before stays true meanwhile. Without a runtime to
// ask it returns at once.
func (d *Disks) Run(ctx context.Context) {
	if d.options.Filesystems == nil {
		return
	}
	again := firstAskAgain
	for {
		wait := askRegularly
		if err := d.Locate(ctx); err == nil {
			again = firstAskAgain
		} else {
			wait, again = again, min(2*again, lastAskAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Locate asks the container runtime once, for at most 10 s. Run does that;
// whoever wants to know at start whether it works calls it themselves.
func (d *Disks) Locate(ctx context.Context) error {
	if d.options.Filesystems == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, locateTimeout)
	defer cancel()
	images, containers, err := d.options.Filesystems(ctx)
	if err == nil {
		err = d.settle(images, containers)
	}
	if err != nil {
		err = fmt.Errorf("ask the container runtime where it keeps images and writable layers: %w", err)
		d.fail(err)
	}
	return err
}

var errNoImagefs = errors.New("it names no directory of images")

// settle takes over what the runtime told: the first of each, as the kubelet
// does. A runtime that names no place of writable layers keeps them with the
// images.
func (d *Disks) settle(images, containers []cri.Filesystem) error {
	if len(images) == 0 || images[0].Mountpoint == "" {
		return errNoImagefs
	}
	at := images[0].Mountpoint
	layers := at
	if len(containers) > 0 && containers[0].Mountpoint != "" {
		layers = containers[0].Mountpoint
	}
	imagefs, containerfs := d.probes[1], d.probes[1]
	imagefs.move(at)
	if layers != at {
		containerfs = d.probes[2]
		containerfs.move(layers)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.placed[signals.Imagefs] = diskSource{probe: imagefs}
	d.placed[signals.Containerfs] = diskSource{probe: containerfs}
	return nil
}

// fail says why it is not known where images and layers lie, as long as it is not.
func (d *Disks) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, fs := range []signals.Filesystem{signals.Imagefs, signals.Containerfs} {
		if d.placed[fs].probe == nil {
			d.placed[fs].err = err
		}
	}
}
