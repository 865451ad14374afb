package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// collecting implements agent.Collector.
type collecting struct {
	node      *node
	client    *cri.Client   // nil without a runtime
	collector *gc.Collector // likewise
	neighbour *neighbour
	safety    *safety
	pods      *apiPods // nil without an API server that knows them
	begun     time.Time
	log       *slog.Logger
}

// introduction is how long after its start the agent waits for the API server
// to say whether there is a kubelet and which pods have ended, before it makes
// room without knowing: what may be waste would stay, and a pod go for it.
const introduction = 10 * time.Second

func (c *collecting) introduce(ctx context.Context) {
	again(ctx, 50*time.Millisecond, func() bool { return !c.knows() && time.Since(c.begun) < introduction })
}

func (c *collecting) knows() bool {
	_, known := c.neighbour.there()
	return known && (c.pods == nil || c.pods.Synced())
}

// Collect implements agent.Collector.
func (c *collecting) Collect(ctx context.Context, what []signals.Reclaimer, enough func(*signals.Observations) bool) []signals.Reclaimer {
	begun := time.Now()
	ran, done := c.relieve(ctx, what, enough)
	if done {
		return ran
	}
	if err := c.node.directories.AwaitLayers(ctx, begun); err != nil && ctx.Err() == nil {
		c.log.Warn("what pods keep in writable layers may be out of date", "error", err)
	}
	c.measure(ctx)
	return ran
}

func (c *collecting) relieve(ctx context.Context, what []signals.Reclaimer, enough func(*signals.Observations) bool) (ran []signals.Reclaimer, done bool) {
	if c.collector == nil || len(what) == 0 {
		return nil, false
	}
	c.introduce(ctx)
	if !c.mine() {
		return nil, false
	}
	relief := c.collector.Relieve(ctx, what, func() bool {
		var now signals.Observations
		c.node.disks.Observe(&now)
		return enough(&now)
	})
	c.log.Info("collected waste", "containers", relief.Containers, "sandboxes", relief.Sandboxes, "images", relief.Images,
		"freedBytes", relief.FreedBytes, "enough", relief.Enough, "error", relief.Err)
	return relief.Ran, relief.Enough
}

// measure measures what pods keep on disks.
func (c *collecting) measure(ctx context.Context) {
	if err := c.node.directories.Measure(ctx, c.node.pods()); err != nil && ctx.Err() == nil {
		c.log.Warn("what pods keep on disks is not completely known", "error", err)
	}
}

// measureRegularly is for local-storage limits, which are looked at in every
// regular look.
func (c *collecting) measureRegularly(ctx context.Context, period time.Duration) {
	if period < 0 {
		return
	}
	period = cmp.Or(period, time.Minute) // a kubelet takes 0 for its default
	again(ctx, max(period, time.Second), func() bool {
		if c.neighbour.limits() {
			c.measure(ctx)
		}
		return true
	})
}

// mine reports whether the agent is the one who collects, and may.
func (c *collecting) mine() bool { return c.safety.acts() && c.neighbour.reclaims() }

// run collects now and then, as long as nobody else does.
func (c *collecting) run(ctx context.Context) {
	for ctx.Err() == nil && c.until(ctx, true) {
		c.log.Info("collecting dead containers and unused images", "reclaim", c.neighbour.config.Reclaim)
		turn, end := context.WithCancel(ctx)
		go func() {
			defer end()
			if c.until(turn, false) {
				c.log.Info("dead containers and unused images are not collected any more", "armed", c.safety.acts())
			}
		}()
		c.collector.Run(turn)
	}
}

// until waits until the agent is the one who collects, or is not; false if ctx
// ends before. Being disarmed is heard of at once, a kubelet within its period.
func (c *collecting) until(ctx context.Context, ours bool) bool {
	tick := time.NewTicker(neighbourPeriod)
	defer tick.Stop()
	for {
		changed := c.safety.holds().next
		if c.mine() == ours {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		case <-changed:
		}
	}
}

// remove gives back the layers of a pod that was evicted for a disk. What it
// can not remove is left to the next collection.
func (c *collecting) remove(ctx context.Context, uid string) {
	if c.collector == nil || !c.mine() {
		return
	}
	if err := c.collector.RemovePod(ctx, uid); err != nil {
		c.log.Warn("an evicted pod's containers are not removed yet", "uid", uid, "error", err)
	}
}

// stop has the runtime stop the sandbox of a pod that was killed, which was
// spared (kill.Target). A kubelet does so by itself.
func (c *collecting) stop(ctx context.Context, uid string) {
	if there, known := c.neighbour.there(); c.client == nil || there || !known || c.safety.may() != nil {
		return
	}
	sandboxes, err := c.client.Sandboxes(ctx)
	for _, s := range sandboxes {
		if s.UID == uid && s.Ready {
			err = c.client.StopSandbox(ctx, s.ID)
		}
	}
	if err != nil {
		c.log.Warn("an evicted pod's sandbox is not stopped", "uid", uid, "error", err)
	}
}

func newCollector(c *config.Agent, n *node, client gc.Runtime, images *sandboxImages, owners gc.Owners, teller gc.Teller, log *slog.Logger) *gc.Collector {
	return gc.New(keepingRuntime{client, images}, func(context.Context) (available, capacity int64, err error) {
		return n.disks.Available(signals.Imagefs)
	}, owners, teller, log, gc.Options{
		ImageHigh: int(c.ImageGCHighThresholdPercent), ImageLow: int(c.ImageGCLowThresholdPercent),
		MinimumImageTTL: c.ImageMinimumGCAge, MaximumImageAge: c.ImageMaximumGCAge,
		MinimumContainerTTL:     c.MinimumContainerTTLDuration,
		MaximumDeadPerContainer: int(c.MaximumDeadContainersPerContainer), MaximumDead: int(c.MaximumDeadContainers),
		CallTimeout: c.RuntimeRequestTimeout, PodLogs: c.OnHost(c.PodLogsDir), Keep: images.keep,
	})
}

// owners implements reclaim.Owners by the API server.
type owners struct{ pods *apiPods }

var podStates = map[client.PodState]gc.PodState{
	client.Active: gc.Active, client.Unknown: gc.Active,
	client.Ended: gc.Ended, client.Evicted: gc.Evicted, client.Gone: gc.Unknown,
}

func (o owners) Pod(uid string) gc.PodState { return podStates[o.pods.State(uid)] }

func (o owners) Complete() bool { return o.pods.Synced() && o.pods.Err() == nil }

// unowned are pods of which nobody but the runtime knows.
type unowned struct{}

func (unowned) Pod(string) gc.PodState { return gc.Active }
func (unowned) Complete() bool         { return false }

// collected implements reclaim.Teller.
type collected struct {
	metrics *metrics.Metrics
	event   func(reason, message string)
}

var (
	collectedFor = map[string]metrics.Reason{"space": metrics.Space, "age": metrics.Age}
	freedBy      = map[signals.Reclaimer]metrics.Freer{signals.DeadContainers: metrics.Containers, signals.UnusedImages: metrics.Images}
)

func (c collected) Event(reason, message string) { c.event(reason, message) }

func (c collected) Collected(kind string, n int) { c.metrics.ImagesCollected(collectedFor[kind], n) }

func (c collected) Freed(what signals.Reclaimer, bytes int64) { c.metrics.Freed(freedBy[what], bytes) }
