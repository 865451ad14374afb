package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/cgroupnotify"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor/examine"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/stats"
)

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

// openState opens the state file; a fault costs what it would have kept, and
// not the node.
func openState(c *config.Agent, log *slog.Logger) *checkpoint.Sections {
	if c.StateFile == "" {
		return nil
	}
	lost := func(err error) {
		log.Error("the state does not survive a restart: timers, conditions and debts would begin anew", "error", err)
	}
	boot, err := checkpoint.BootID(c.ProcRoot)
	if err != nil {
		lost(err)
		return nil
	}
	file, err := checkpoint.Open(c.StateFile, boot)
	if err != nil {
		lost(err)
		return nil
	}
	sections, notice, err := checkpoint.OpenSections(file, lost)
	if err != nil {
		lost(err)
		return nil
	}
	log.Info(notice, "stateFile", c.StateFile)
	return sections
}

// openAPI connects to the API server, if there is one.
func (a *app) openAPI(ctx context.Context) error {
	connection, err := client.Connect(client.Options{Kubeconfig: a.config.Kubeconfig, NodeName: a.config.NodeName,
		UserAgent: "plimsoll-agent/" + a.Version, Choices: a.choices, Log: a.log})
	if err != nil {
		return err
	}
	if !connection.Configured() {
		a.log.Info("no API server: pods are those of --pod-manifests, and nobody is told of evictions but this log")
		return nil
	}
	a.api = connection
	a.apiNode = client.WatchNode(ctx, connection, a.noteClusterChange)
	if a.config.PodManifests != "" {
		return nil
	}
	a.apiPods = watchPods(ctx, connection, a.choices, a.state, a.log)
	a.node.source = a.apiPods
	return nil
}

// openRuntime finds the container runtime, and what it alone knows: where
// images and layers are. Nothing waits for it.
func (a *app) openRuntime(ctx context.Context) error {
	c := a.config
	endpoint, err := examine.RuntimeEndpoint(c)
	switch {
	case errors.Is(err, examine.ErrNoRuntime):
		a.log.Info("no container runtime: nothing is collected, and writable layers are not measured", "reason", err)
	case err != nil:
		return err
	default:
		if a.runtime, err = cri.Open(cri.Options{Endpoint: endpoint, Timeout: c.RuntimeRequestTimeout}); err != nil {
			return err
		}
		a.closers = append(a.closers, func() { _ = a.runtime.Close() })
	}
	disks := stats.DiskOptions{HostRoot: c.HostRoot, NodeDirectory: nearestExisting(c.HostRoot, c.RootDir)}
	directories := stats.DirectoryOptions{HostRoot: c.HostRoot, KubeletRoot: c.RootDir, PodLogs: c.PodLogsDir}
	if a.runtime != nil {
		disks.Filesystems, directories.Layers = a.runtime.ImageFilesystems, a.runtime.ContainerStats
	}
	a.node.disks, a.node.directories = stats.OpenDisks(disks), stats.OpenDirectories(directories)
	a.group.Go(func() { a.node.disks.Run(ctx) })
	if a.runtime != nil {
		a.group.Go(func() { a.watchRuntime(ctx) })
		a.group.Go(func() { a.node.sandboxes.watch(ctx, a.runtime.Sandboxes) })
	}
	if a.runtime != nil && a.apiPods != nil {
		renew := a.node.sandboxes.renew
		a.apiPods.onSandboxChange.Store(&renew)
		a.group.Go(func() { a.apiPods.askRuntime(ctx, a.runtime) })
	}
	return a.openProvider()
}

// openCollecting prepares to make room on disks.
func (a *app) openGC(ctx context.Context) {
	a.garbage = &garbageCollector{node: a.node, kubelet: a.kubelet, pods: a.apiPods, arming: a.arming, begun: time.Now(), log: a.log}
	a.reporter.garbage = a.garbage
	a.group.Go(func() { a.garbage.measureRegularly(ctx, a.config.VolumeStatsAggPeriod) })
	if a.runtime == nil {
		return
	}
	var who gc.Owners = noOwners{}
	if a.apiPods != nil {
		who = podOwners{a.apiPods}
	}
	a.garbage.runtime = a.runtime
	a.garbage.collector = newCollector(a.config, a.node, guardedRuntime{a.runtime, a.arming}, &sandboxImages{source: a.runtime}, who, gcReporter{a.metrics, a.reporter.reportCollection}, a.log)
	a.group.Go(func() { a.garbage.run(ctx) })
}

// openLadder has the API server told of evictions, and asked for polite ones.
func (a *app) openEvictor(ctx context.Context) error {
	if a.apiPods == nil {
		return nil
	}
	var previous []podstatus.Debt
	if a.state != nil {
		previous = loadPendingStatuses(a.state, a.log)
	}
	options := podstatus.Options{}
	if a.runtime != nil {
		options.Running = running(a.runtime)
	}
	teller := podstatus.New(a.api.Urgent(), a.api.NodeName(), a.log, func(debts []podstatus.Debt) {
		a.metrics.StatusDebts(len(debts))
		if a.state != nil {
			a.state.Save(statusesSection, debts)
		}
	}, options)
	l, requests, err := newEvictor(a.api, a.config.SoftEviction, teller, a.apiPods, a.metrics, a.reporter.publishSoftEvictions, a.log)
	if err != nil {
		return err
	}
	requests.arming, a.softEvictions = a.arming, requests
	a.node.evictor = l
	a.group.Go(func() { teller.Run(ctx, previous) })
	look := func() {
		teller.Look(a.apiPods.Get)
		teller.Repair(a.apiPods.Unexplained(), a.apiPods.Has)
	}
	a.apiPods.onChange.Store(&look)
	look() // the pods may have come before
	a.group.Go(func() { requests.run(ctx) })
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
