// Package app puts the agent together and runs it: the loop of package agent, and behind
// each of its ports what the kernel, the container runtime and the API server are for it.
//
// It is the one place that knows every implementation on a node, and it decides nothing
// about evictions. Whatever runs beside the loop ends before [Run] returns, unless it
// waits for something that does not answer.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	nodesignal "plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/internal/process"
)

// spareProcessors gives Go's scheduler two processors more than it would use, for the
// threads that check memory: the loop's, and the one that goes on while that one kills.
// Each needs one to go on when it wakes, and while lists are decoded and directories
// walked on all of them it would wait for up to 10 ms until one is taken away (measured
// with two busy goroutines on two cores: 4.8 ms in the median, with one to spare
// 0.06 ms). It also keeps the runtime from reading the CPU limit anew each second, which
// a program at rest can do without.
func spareProcessors() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) }

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

// othersWait is how long runtime and API server may keep the first look waiting:
// what they know is wanted, and memory may be short already.
const remoteCheckTimeout = time.Second

// askOthers runs the part of the self-test that others answer.
func (a *app) checkRemote(ctx context.Context) {
	asked := make(chan struct{})
	a.group.Go(func() {
		defer close(asked)
		agent.SelfTest(ctx, a.log, a.remoteChecks())
	})
	select {
	case <-asked:
	case <-time.After(remoteCheckTimeout):
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
