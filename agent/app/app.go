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
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/cgroupnotify"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/oomkill"
	"plimsoll.dev/plimsoll/internal/process"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/internal/reload"
)

// Options are the parameters of an agent that are not in its configuration.
type Options struct {
	Version, Revision string    // of the program
	Out               io.Writer // receives the log and the decisions, in lines
	// Source is where the configuration was loaded from; nil: it does not change.
	Source *config.Source
}

// Run puts the agent together and runs it until ctx ends. Returns an error if a part can
// not be opened that the agent can not do without; it has evicted nothing then.
func Run(ctx context.Context, c *config.Agent, o Options) error {
	spareProcessors()
	agent.ReserveThreads()
	lines := decisionlog.NewLines(o.Out)
	defer lines.Close()
	level := &process.Level{}
	level.Set(c.Verbosity)
	log := process.NewLogger(c.LoggingFormat, level, lines)
	process.SetMemoryLimit(log)
	a := &app{Options: o, config: c, log: log, level: level, lines: lines}
	a.openConfig()
	defer a.close()
	a.catchDisarmSignal()
	signalled := ctx
	ctx, end := context.WithCancel(context.WithoutCancel(signalled))
	defer end() // before close
	if err := a.open(ctx); err != nil {
		return err
	}
	defer context.AfterFunc(signalled, func() {
		a.cleanUpIfUninstalled()
		end()
	})()
	agent.SelfTest(ctx, log, a.localChecks(a.policies.current().Policy))
	a.checkRemote(ctx)
	rules := a.policies.current()
	policy := rules.Policy
	warnOfSmallThresholds(policy, a.watch.Config(), log)
	armed, why := a.arming.Armed()
	log.Info("Started agent", "nodeCgroup", c.NodeCgroup, "hierarchy", a.node.hierarchy.Version.String(), "thresholds", fmt.Sprint(policy.Thresholds),
		"evictionChoice", c.EvictionChoice.String(), "earlyEviction", c.EarlyEviction.String(), "maxFillRate", c.FillRate(), "notifications", a.notifications(), "armed", armed, "why", why, "pid", os.Getpid())
	loop := a.newLoop(rules)
	a.loop.Store(loop)
	loop.Run(ctx)
	log.Info("Stopped agent")
	return nil
}

// newLoop returns the loop with an implementation of each of its ports.
func (a *app) newLoop(rules *agent.Rules) *agent.Agent {
	notifier, stalls := a.wakers()
	machine, limits := restoredMachine(rules.Policy, a.state, a.log), a.openLimiter(rules.Limits, time.Now())
	parts := agent.Parts{
		Machine: machine, Observer: a.node, Pods: a.node, Victims: a.node, Collector: a.garbage,
		Inventory: a.node, Reporter: a.reporter, Notifier: notifier, Thread: a.thread, Stalls: stalls, Rules: a.policies.current, Draining: a.shutdownReason,
		Arming: a.arming, Limiter: limits, LimiterSaved: a.saveLimiter, Consumers: a.node,
	}
	if r := a.openRecorder(machine, limits); r != nil {
		parts.Recorder, a.reporter.recorder = r, r
	}
	return agent.New(agent.Settings{Period: a.config.MonitoringPeriod, MaxFillRate: rules.MaxFillRate, LogChecks: rules.LogChecks}, parts)
}

// spareProcessors gives Go's scheduler two processors more than it would use, for the
// threads that check memory: that of the loop, and the one that checks during a kill.
// Each needs a processor when it wakes. While lists are decoded and directories walked on
// all of them, it would wait for up to 10 ms (measured with two busy goroutines on two
// cores: 4.8 ms in the median, with a spare processor 0.06 ms). A fixed number also stops
// the runtime from reading the CPU limit each second.
func spareProcessors() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) }

// An app is the agent with all of its parts. What runs beside the loop is in group and
// ends with the ctx of open.
type app struct {
	Options
	config  *config.Agent               // at the start; of options that are live see watch
	watch   *reload.Watch[config.Agent] // of the configuration file
	log     *slog.Logger
	level   *process.Level
	lines   *decisionlog.Lines
	group   sync.WaitGroup
	closers []func()

	choices       *agentpods.Choices
	node          *node
	state         *checkpoint.Sections // nil: no state survives a restart
	api           *client.Connection   // nil without an API server
	apiPods       *apiPods             // nil without one, and with manifests
	apiNode       *client.Node         // nil without one
	runtime       *cri.Client          // nil without a runtime
	runtimeHealth healthz.Finding      // whether the runtime answers
	kubelet       *kubeletDetector
	policies      *policies
	garbage       *garbageCollector
	metrics       *metrics.Metrics
	reporter      *reporter
	endRecords    context.CancelFunc     // nil: evictions are not recorded in the cluster
	notifier      *cgroupnotify.Notifier // nil: the timer alone wakes the loop
	thread        *agent.Thread
	ring          atomic.Pointer[ring.Ring] // nil: nothing is recorded
	decisions     *storedDecisions          // nil: decisions are not stored on the node
	besides       besideLines
	armingWatcher
}

// open opens all parts: the kernel's files first, which are required, then those that the
// node and the configuration have. Returns an error if a required part can not be opened.
func (a *app) open(ctx context.Context) (err error) {
	if a.node, err = openNode(a.config, a.log); err != nil {
		return err
	}
	a.closers = append(a.closers, a.node.close)
	a.choices = agentpods.NewChoices(a.config.ProtectedNamespaces, a.config.EvictionPolicyNamespaces, func(problem error) {
		a.log.Warn("Ignored an annotation of a pod about its eviction", "problem", problem)
	})
	a.choices.Exclude(ownPod(os.Getenv(podUIDVariable), ownCgroups))
	policy, err := a.config.Policy(signals.Single)
	if err != nil {
		return err
	}
	settings := metrics.Settings{Version: a.Version, Revision: a.Revision, Configured: policy.Configured,
		Limits: []string{eviction.EmptyDirStorageLimit, eviction.PodStorageLimit, eviction.ContainerStorageLimit}, OOMLimits: oomkill.LevelNames(), LinesDropped: a.lines.Lost,
		Threshold: func(s signals.Signal, hard bool, capacity signals.Amount) (signals.Amount, bool) {
			return a.policies.published().HighestThreshold(s, hard, capacity)
		}, Config: func() metrics.Config { return metrics.Config(a.watch.Status()) }}
	if a.config.RecordingDir != "" || a.config.DecisionLogDir != "" {
		settings.Recording = a.recordingStats
	}
	a.metrics = metrics.New(settings)
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
	a.policies = newPolicies(a.watch.Config, a.node.disks.Layout, a.kubelet.leavesLimits, a.preparePolicy, a.log)
	if a.config.PodManifests != "" {
		files := openManifests(a.config.PodManifests, a.choices, a.log)
		a.node.source = files
		a.group.Go(func() { files.watch(ctx, a.config.PodManifests) })
	}
	if err := a.openReporter(ctx); err != nil {
		return err
	}
	a.openOOMKills(ctx)
	a.openGC(ctx)
	a.watchArming(ctx)
	a.group.Go(func() { a.watch.Run(ctx) })
	a.node.Refresh(ctx)
	return nil
}

// closeTimeout bounds the wait for the group: a request to a runtime or a server may stay
// without an answer.
const closeTimeout = 5 * time.Second

// close waits for the group and closes all parts. The ctx of open must have ended.
func (a *app) close() {
	if a.endRecords != nil {
		a.endRecords()
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		a.group.Wait()
	}()
	select {
	case <-gone:
	case <-time.After(closeTimeout):
		a.log.Warn("Stopped without waiting for calls that did not return")
	}
	if a.reporter != nil {
		a.reporter.storeBeside()
	}
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// shutdownReason returns why the kubelet terminates all pods of the node; empty if it does
// not.
func (a *app) shutdownReason() string {
	if a.apiNode == nil {
		return ""
	}
	if shutting, why := a.apiNode.ShuttingDown(); shutting {
		return why
	}
	return ""
}

// warnOfSmallThresholds logs hard memory thresholds that do not protect up to the fill
// rate of the machine.
func warnOfSmallThresholds(p *eviction.Policy, c *config.Agent, log *slog.Logger) {
	for _, t := range p.Thresholds {
		if t.Signal != signals.MemoryAvailable || !t.Hard() || t.Value.Fraction > 0 {
			continue
		}
		if protected := eviction.ProtectedRate(t.Value.Quantity.Value); protected < c.FillRate() {
			log.Warn("Threshold leaves too little time: faster allocation can exhaust memory before a kill takes effect",
				"threshold", t.String(), "protectsUpToBytesPerSecond", protected, "maxFillRate", c.FillRate(),
				"remedy", fmt.Sprintf("raise the threshold to %dMi, or leave it if nothing here fills that fast", eviction.ThresholdFor(c.FillRate())>>20))
		}
	}
}

// repeat calls step at once and then every period, as long as it returns true. It reports
// whether step has ended it, and not ctx.
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
