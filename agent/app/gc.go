package app

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// A garbageCollector implements agent.Collector: it removes dead containers and unused
// images by the runtime, and measures the disk usage of pods.
type garbageCollector struct {
	node      *node
	runtime   *cri.Client   // nil without a runtime
	collector *gc.Collector // likewise
	kubelet   *kubeletDetector
	config    func() *config.Agent // in force
	arming    *armingState
	pods      *apiPods // nil without an API server that lists them
	started   time.Time
	log       *slog.Logger
}

// openGC prepares garbage collection, and starts its periodic runs.
func (a *app) openGC(ctx context.Context) {
	a.garbage = &garbageCollector{node: a.node, kubelet: a.kubelet, config: a.watch.Config, pods: a.apiPods, arming: a.arming, started: time.Now(), log: a.log}
	a.reporter.garbage = a.garbage
	a.group.Go(func() { a.garbage.measureRegularly(ctx, a.config.VolumeStatsAggPeriod) })
	if a.runtime == nil {
		return
	}
	var owners gc.Owners = noOwners{}
	if a.apiPods != nil {
		owners = apiOwners{a.apiPods}
	}
	a.garbage.runtime = a.runtime
	a.garbage.collector = newCollector(a.config, a.node, guardedRuntime{a.runtime, a.arming}, &sandboxImages{source: a.runtime}, owners, gcReporter{a.metrics, a.reporter.reportCollection}, a.log)
	a.group.Go(func() { a.garbage.run(ctx) })
}

func newCollector(c *config.Agent, n *node, client gc.Runtime, images *sandboxImages, owners gc.Owners, reporter gc.Reporter, log *slog.Logger) *gc.Collector {
	return gc.New(imageKeepingRuntime{client, images}, func(context.Context) (available, capacity int64, err error) {
		return n.disks.Available(signals.Imagefs)
	}, owners, reporter, log, gc.Options{
		ImageHigh: int(c.ImageGCHighThresholdPercent), ImageLow: int(c.ImageGCLowThresholdPercent),
		MinimumImageTTL: c.ImageMinimumGCAge, MaximumImageAge: c.ImageMaximumGCAge,
		MinimumContainerTTL:     c.MinimumContainerTTLDuration,
		MaximumDeadPerContainer: int(c.MaximumDeadContainersPerContainer), MaximumDead: int(c.MaximumDeadContainers),
		CallTimeout: c.RuntimeRequestTimeout, PodLogs: c.OnHost(c.PodLogsDir), Keep: images.keep,
	})
}

// introductionTime is the longest wait, counted from the start, for the API server to report
// whether there is a kubelet and which pods have ended. Without that garbage could remain,
// and a pod be evicted instead.
const introductionTime = 10 * time.Second

func (g *garbageCollector) awaitInformation(ctx context.Context) {
	repeat(ctx, 50*time.Millisecond, func() bool { return !g.informed() && time.Since(g.started) < introductionTime })
}

func (g *garbageCollector) informed() bool {
	_, known := g.kubelet.present()
	return known && (g.pods == nil || g.pods.Synced())
}

// Collect implements agent.Collector.
func (g *garbageCollector) Collect(ctx context.Context, what []signals.Garbage, enough func(*signals.Observations) bool) []signals.Garbage {
	begun := time.Now()
	ran, done := g.free(ctx, what, enough)
	if done {
		return ran
	}
	if err := g.node.directories.AwaitLayers(ctx, begun); err != nil && ctx.Err() == nil {
		g.log.Warn("Usage of writable layers may be out of date", "error", err)
	}
	g.measure(ctx)
	return ran
}

func (g *garbageCollector) free(ctx context.Context, what []signals.Garbage, enough func(*signals.Observations) bool) (ran []signals.Garbage, done bool) {
	if g.collector == nil || len(what) == 0 {
		return nil, false
	}
	g.awaitInformation(ctx)
	if !g.enabled() {
		return nil, false
	}
	result := g.collector.Free(ctx, what, func() bool {
		var now signals.Observations
		g.node.disks.Observe(&now)
		return enough(&now)
	})
	level := slog.LevelInfo
	if result.Containers+result.Sandboxes+result.Images == 0 && result.Err == nil {
		level = slog.LevelDebug // repeated while a disk is short and nothing can be collected
	}
	g.log.Log(ctx, level, "Collected garbage", "containers", result.Containers, "sandboxes", result.Sandboxes, "images", result.Images,
		"freedBytes", result.FreedBytes, "enough", result.Enough, "error", result.Err)
	return result.Ran, result.Enough
}

// measure measures the disk usage of pods.
func (g *garbageCollector) measure(ctx context.Context) {
	if err := g.node.directories.Measure(ctx, g.node.pods()); err != nil && ctx.Err() == nil {
		g.log.Warn("Disk usage of pods is incomplete", "error", err)
	}
}

// measureRegularly measures disk usage for local-storage limits, which every periodic check
// evaluates.
func (g *garbageCollector) measureRegularly(ctx context.Context, period time.Duration) {
	if period < 0 {
		return
	}
	period = cmp.Or(period, time.Minute) // for a kubelet 0 means its default
	repeat(ctx, max(period, time.Second), func() bool {
		if g.kubelet.leavesLimits(g.config()) {
			g.measure(ctx)
		}
		return true
	})
}

// enabled reports whether garbage collection is left to the agent, and the agent is armed.
func (g *garbageCollector) enabled() bool { return g.arming.armed() && g.kubelet.leavesGC() }

// run collects periodically while it is enabled, until ctx ends.
func (g *garbageCollector) run(ctx context.Context) {
	for ctx.Err() == nil && g.awaitEnabled(ctx, true) {
		g.log.Info("Started garbage collection of dead containers and unused images", "garbageCollection", g.kubelet.config.GarbageCollection)
		enabled, end := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			defer end()
			if g.awaitEnabled(enabled, false) {
				g.log.Info("Stopped garbage collection of dead containers and unused images", "armed", g.arming.armed())
			}
		})
		g.collector.Run(enabled)
		watch.Wait()
	}
}

// awaitEnabled waits until garbage collection is enabled, or is not; false if ctx ends
// before. It notices at once that the agent is disarmed, and a kubelet within its period.
func (g *garbageCollector) awaitEnabled(ctx context.Context, want bool) bool {
	tick := time.NewTicker(kubeletPeriod)
	defer tick.Stop()
	for {
		changed := g.arming.current().superseded
		if g.enabled() == want {
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

// removePod removes the layers of a pod that was evicted for a disk. The next collection
// retries what fails.
func (g *garbageCollector) removePod(ctx context.Context, uid string) {
	if g.collector == nil || !g.enabled() {
		return
	}
	if err := g.collector.RemovePod(ctx, uid); err != nil {
		g.log.Warn("Failed to remove containers of an evicted pod, retrying", "uid", uid, "error", err)
	}
}

// stopSandbox has the runtime stop the sandbox of a pod that was killed, which the kill
// spared (kill.Target). Beside a kubelet, which does that itself, it does nothing.
func (g *garbageCollector) stopSandbox(ctx context.Context, uid string) {
	if present, known := g.kubelet.present(); g.runtime == nil || present || !known || g.arming.mayAct() != nil {
		return
	}
	sandboxes, err := g.runtime.Sandboxes(ctx)
	for _, s := range sandboxes {
		if s.UID == uid && s.Ready {
			err = g.runtime.StopSandbox(ctx, s.ID)
		}
	}
	if err != nil {
		g.log.Warn("Failed to stop the sandbox of an evicted pod", "uid", uid, "error", err)
	}
}

// apiOwners implements gc.Owners by the API server's pods.
type apiOwners struct{ pods *apiPods }

var podStates = map[client.PodState]gc.PodState{
	client.Active: gc.Active, client.Unknown: gc.Active,
	client.Ended: gc.Ended, client.Evicted: gc.Evicted, client.Gone: gc.Unknown,
}

func (o apiOwners) Pod(uid string) gc.PodState { return podStates[o.pods.State(uid)] }

func (o apiOwners) Complete() bool { return o.pods.Synced() && o.pods.Err() == nil }

// noOwners implements gc.Owners for pods that the runtime alone knows.
type noOwners struct{}

func (noOwners) Pod(string) gc.PodState { return gc.Active }

func (noOwners) Complete() bool { return false }

// gcReporter implements gc.Reporter by metrics and events.
type gcReporter struct {
	metrics *metrics.Metrics
	event   func(reason, message string)
}

var (
	collectedFor = map[string]metrics.Reason{"space": metrics.Space, "age": metrics.Age}
	freedBy      = map[signals.Garbage]metrics.Freer{signals.DeadContainers: metrics.Containers, signals.UnusedImages: metrics.Images}
)

func (c gcReporter) Event(reason, message string) { c.event(reason, message) }

func (c gcReporter) Collected(kind string, n int) { c.metrics.ImagesCollected(collectedFor[kind], n) }

func (c gcReporter) Freed(what signals.Garbage, bytes int64) { c.metrics.Freed(freedBy[what], bytes) }
