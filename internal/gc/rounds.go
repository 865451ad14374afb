package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// Run collects garbage periodically until ctx ends. Containers are collected immediately. The TTL
// of images present at the start begins at the start.
func (c *Collector) Run(ctx context.Context) {
	containers, images := time.NewTicker(c.options.ContainerPeriod), time.NewTicker(c.options.ImagePeriod)
	defer containers.Stop()
	defer images.Stop()
	c.containerRound(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-containers.C:
			c.containerRound(ctx)
		case <-images.C:
			c.imageRound(ctx)
		}
	}
}

// containerRound also lists images: frequent listings make the times of their arrival and last use
// more precise.
func (c *Collector) containerRound(ctx context.Context) {
	err := c.turns.round(ctx, func(ctx context.Context) error {
		_, _, _, err := c.newSweep(never).collectDead(ctx, false)
		if err != nil && ends(ctx, err) {
			return err
		}
		if _, _, listErr := c.listImages(ctx); listErr != nil {
			c.log.Warn("Failed to examine images", "error", listErr)
		}
		return err
	})
	if c.failed(ctx, "containers", err) {
		c.reporter.Event("ContainerGCFailed", err.Error())
	}
}

// imageRound reports a failure from the second consecutive one on: the restart of a runtime is no
// event.
func (c *Collector) imageRound(ctx context.Context) {
	err := c.turns.round(ctx, c.collectOldAndFull)
	if err == nil {
		c.failures = 0
	}
	if c.failed(ctx, "images", err) {
		if c.failures++; c.failures > 1 {
			c.reporter.Event("ImageGCFailed", err.Error())
		}
	}
}

// failed logs the failure of a round and reports whether it failed; a cancelled round has not
// failed.
func (c *Collector) failed(ctx context.Context, what string, err error) bool {
	if err == nil || ctx.Err() != nil || errors.Is(err, errGaveWay) {
		return false
	}
	c.log.Warn("Failed to collect garbage", "kind", what, "error", err)
	return true
}

// collectOldAndFull removes images that were unused for too long, then unused ones if the file
// system is too full.
func (c *Collector) collectOldAndFull(ctx context.Context) error {
	unused, now, err := c.listImages(ctx)
	if err != nil {
		return err
	}
	var f faults
	old, rest := splitByAge(unused, c.seen, c.options.MaximumImageAge, now)
	n, _, err := each(ctx, c.newSweep(never), old, &f, func(img *cri.Image) (bool, error) { return c.removeImage(ctx, img) })
	if n > 0 {
		c.reporter.Collected(forAge, n)
	}
	if err == nil && c.options.ImageHigh < 100 {
		err = c.makeSpace(ctx, rest)
	}
	f.add(err)
	return f.err()
}

// makeSpace removes images if the usage is at the high threshold or above, until it is at the low
// one.
func (c *Collector) makeSpace(ctx context.Context, unused []cri.Image) error {
	before, capacity, err := c.measure(ctx)
	if err != nil || usedPercent(before, capacity) < c.options.ImageHigh {
		return err
	}
	goal := share(capacity, 100-c.options.ImageLow)
	s := c.newSweep(func(ctx context.Context) (bool, error) {
		available, _, err := c.measure(ctx)
		return available >= goal, err
	})
	n, enough, err := s.collectImages(ctx, unused)
	if n > 0 {
		c.reporter.Collected(forSpace, n)
	}
	if err != nil && ends(ctx, err) {
		return err
	}
	var f faults
	f.add(err)
	if !enough {
		f.add(s.last(ctx))
	}
	available, _, err := c.measure(ctx)
	if err != nil {
		f.add(err)
		return f.err()
	}
	if n > 0 {
		c.reporter.Freed(signals.UnusedImages, max(0, available-before))
	}
	if available < goal {
		f.add(c.reportFull(usedPercent(available, capacity), capacity, max(0, available-before)))
	}
	return f.err()
}

// reportFull reports that unused images were not enough, as an event and as the error of the round.
func (c *Collector) reportFull(percent int, capacity, freed int64) error {
	text := fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage: images in use, logs, volumes and writable layers are left.",
		percent, signals.Format(signals.Amount(capacity), signals.UnitBytes), freed)
	c.reporter.Event("FreeDiskSpaceFailed", text)
	return errors.New(text)
}
