package stats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// Intervals between requests for the runtime's mountpoints. They are short after a failure, and
// long otherwise, because the mountpoints only change with the runtime's configuration.
const (
	minLocateBackoff = time.Second
	maxLocateBackoff = 30 * time.Second
	locateInterval   = time.Minute
	locateTimeout    = 10 * time.Second
)

// Run requests the mountpoints of images and writable layers from the container runtime until
// ctx ends. Failed requests are retried with a backoff, and the last answer stays in use
// meanwhile. Without a runtime it returns at once.
func (d *Disks) Run(ctx context.Context) {
	if d.options.Filesystems == nil {
		return
	}
	again := minLocateBackoff
	for {
		wait := locateInterval
		if err := d.Locate(ctx); err == nil {
			again = minLocateBackoff
		} else {
			wait, again = again, min(2*again, maxLocateBackoff)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Locate requests the mountpoints once, for at most 10 s. Run calls it regularly; call it
// directly to check the runtime at start. Returns an error if the runtime fails to answer or
// reports no image directory.
func (d *Disks) Locate(ctx context.Context) error {
	if d.options.Filesystems == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, locateTimeout)
	defer cancel()
	images, containers, err := d.options.Filesystems(ctx)
	if err == nil {
		err = d.apply(images, containers)
	}
	if err != nil {
		err = fmt.Errorf("read the image filesystem from the container runtime: %w", err)
		d.fail(err)
	}
	return err
}

var errNoImagefs = errors.New("it names no directory of images")

// apply applies the runtime's answer: the first filesystem of each kind, as in the kubelet. If
// the runtime reports none for writable layers, they are with the images.
func (d *Disks) apply(images, containers []cri.Filesystem) error {
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

// fail records why the mountpoints of images and layers are unknown. It keeps known
// mountpoints.
func (d *Disks) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, fs := range []signals.Filesystem{signals.Imagefs, signals.Containerfs} {
		if d.placed[fs].probe == nil {
			d.placed[fs].err = err
		}
	}
}
