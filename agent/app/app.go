// Package app puts the agent together and runs it: the loop of package agent, and behind
// each of its ports the kernel, the container runtime or the API server.
//
// It is the one place that knows every implementation on a node, and it makes no decision
// about evictions. What runs beside the loop ends before [Run] returns, unless it waits
// for a request that is not answered.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/cgroupnotify"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	nodesignal "plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/internal/process"
)

// Options are what an agent is told by its program, and not by its configuration.
type Options struct {
	Version, Revision string    // of the program
	Out               io.Writer // of the log and of decisions, both in lines
}

// Run puts the agent together and runs it until ctx ends. Returns an error if something
// is missing that the agent can not do without, before it looks for the first time.
func Run(ctx context.Context, c *config.Agent, o Options) error {
	spareProcessors()
	lines := nodestatus.NewLines(o.Out)
	defer lines.Close()
	log := process.NewLogger(c.LoggingFormat, c.Verbosity, lines)
	process.SetMemoryLimit(log)
	p := &app{Options: o, config: c, log: log, lines: lines}
	defer p.Close()
	p.catchDisarmSignal()
	signalled := ctx
	ctx, end := context.WithCancel(context.WithoutCancel(signalled))
	defer end() // before Close
	if err := p.open(ctx); err != nil {
		return err
	}
	defer context.AfterFunc(signalled, func() {
		p.cleanUpIfUninstalled()
		end()
	})()
	policy := p.policies.current()
	agent.SelfTest(ctx, log, p.localChecks(policy))
	p.checkRemote(ctx)
	policy = p.policies.current()
	warnOfSmallThresholds(policy, c, log)
	armed, why := p.arming.Armed()
	log.Info("watching", "node", c.NodeCgroup, "hierarchy", p.node.hierarchy.Version.String(), "thresholds", fmt.Sprint(policy.Thresholds),
		"earlyEviction", c.ExtraLooks.String(), "maxFillRate", c.FillRate(), "notifications", p.notifications(), "armed", armed, "why", why, "pid", os.Getpid())
	notifier, stalls := p.wakers()
	a := agent.New(agent.Settings{Period: c.MonitoringPeriod, MaxFillRate: c.FillRate(), TellLooks: c.Verbosity >= 2}, agent.Parts{
		Machine: restoredMachine(policy, p.state, log), Observer: p.node, Pods: p.node, Victims: p.node, Collector: p.garbage,
		Inventory: p.node, Reporter: p.reporter, Notifier: notifier, Thread: p.thread, Stalls: stalls, Policy: p.policies.current, Leaving: p.shutdownReason,
		Arming: p.arming, Restraint: p.openLimiter(time.Now()), RestraintSaved: p.saveLimiter, Holders: p.node,
	})
	p.loop.Store(a)
	a.Run(ctx)
	log.Info("stopped")
	return nil
}

// spareProcessors gives Go's scheduler two processors more than it would use, for the
// threads that check memory: the loop's, and the one that goes on while that one kills.
// Each needs one to go on when it wakes, and while lists are decoded and directories
// walked on all of them it would wait for up to 10 ms until one is taken away (measured
// with two busy goroutines on two cores: 4.8 ms in the median, with one to spare
// 0.06 ms). It also keeps the runtime from reading the CPU limit anew each second, which
// a program at rest can do without.
func spareProcessors() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) }

// A program is the agent with everything that it is made of. Whatever runs
// beside the loop is in crew and ends with its ctx.
type app struct {
	Options
	config  *config.Agent
	log     *slog.Logger
	lines   *nodestatus.Lines
	group   sync.WaitGroup
	closers []func()

	choices       *agentpods.Choices
	node          *node
	state         *checkpoint.Sections // nil: nothing survives a restart
	api           *client.Connection   // nil without an API server
	apiPods       *apiPods             // nil without one, and with manifests
	apiNode       *client.Node         // nil without one
	runtime       *cri.Client          // nil without a runtime
	runtimeHealth healthz.Finding      // whether it answers
	kubelet       *kubeletDetector
	policies      *policies
	garbage       *garbageCollector
	metrics       *metrics.Metrics
	reporter      *reporter
	notifier      *cgroupnotify.Notifier // nil: the time alone
	thread        *agent.Thread
	armingWatcher
}

// open puts the program together: the kernel first, which has to be there, then
// whatever else there is.
func (a *app) open(ctx context.Context) (err error) {
	if a.node, err = openNode(a.config, a.log); err != nil {
		return err
	}
	a.closers = append(a.closers, a.node.Close)
	a.choices = agentpods.NewChoices(a.config.ProtectedNamespaces, a.config.EvictionPolicyNamespaces, func(problem error) {
		a.log.Warn("what a pod says of its own eviction does not count", "problem", problem)
	})
	a.choices.Exclude(ownPod(os.Getenv(podUIDVariable), ownCgroups))
	policy, err := a.config.Policy(signals.Single)
	if err != nil {
		return err
	}
	a.metrics = metrics.New(metrics.Settings{Version: a.Version, Revision: a.Revision, Configured: policy.Configured,
		Limits: []string{eviction.EmptyDirLimit, eviction.PodLimit, eviction.ContainerLimit}, LinesLost: a.lines.Lost})
	a.node.metrics = a.metrics
	a.notifier = a.openNotifier()
	a.state = openState(a.config, a.log)
	if a.state != nil {
		a.closers = append(a.closers, a.state.Close)
	}
	a.openArming()
	if err := a.openAPI(ctx); err != nil {
		return err
	}
	if err := a.openRuntime(ctx); err != nil {
		return err
	}
	a.kubelet = detectKubelet(a.config, a.apiNode, a.node.findPods, a.log)
	a.group.Go(func() { a.kubelet.watch(ctx) })
	a.policies = newPolicies(a.config, a.node.disks, a.kubelet, a.log)
	if a.config.PodManifests != "" {
		files := openManifests(a.config.PodManifests, a.choices, a.log)
		a.node.source = files
		a.group.Go(func() { files.watch(ctx, a.config.PodManifests) })
	}
	if err := a.openReporter(ctx); err != nil {
		return err
	}
	a.openGC(ctx)
	a.watchArming(ctx)
	a.node.Refresh(ctx)
	return nil
}

// crewWait bounds the wait for what runs beside the loop: a request to a runtime
// or a server that does not answer.
const closeTimeout = 5 * time.Second

// Close ends the program. The ctx of open must have ended.
func (a *app) Close() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.group.Wait()
	}()
	select {
	case <-gone:
	case <-time.After(closeTimeout):
		a.log.Warn("left without waiting for what does not answer")
	}
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// leaving says that the kubelet ends the node's pods.
func (a *app) shutdownReason() string {
	if a.apiNode == nil {
		return ""
	}
	if shutting, why := a.apiNode.ShuttingDown(); shutting {
		return why
	}
	return ""
}

// warnOfSmallThresholds tells up to which fill rate a hard memory threshold
// protects, where that is less than what the machine could fill.
func warnOfSmallThresholds(p *eviction.Policy, c *config.Agent, log *slog.Logger) {
	for _, t := range p.Thresholds {
		if t.Signal != nodesignal.MemoryAvailable || !t.Hard() || t.Value.Fraction > 0 {
			continue
		}
		if protected := eviction.ProtectedRate(t.Value.Quantity.Value); protected < c.FillRate() {
			log.Warn("memory that fills faster than the threshold allows for can be gone before a kill helps",
				"threshold", t.String(), "protectsUpToBytesPerSecond", protected, "maxFillRate", c.FillRate(),
				"remedy", fmt.Sprintf("raise the threshold to %dMi, or leave it if nothing here fills that fast", eviction.ThresholdFor(c.FillRate())>>20))
		}
	}
}

// again calls step at once and then every period, as long as it returns true.
// It reports whether step has ended it, and not ctx.
func repeat(ctx context.Context, period time.Duration, step func() (more bool)) (ended bool) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for step() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
