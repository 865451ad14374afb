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
type program struct {
	Options
	config *config.Agent
	log    *slog.Logger
	lines  *nodestatus.Lines
	crew   sync.WaitGroup
	close  []func()

	choices    *agentpods.Choices
	node       *node
	state      *checkpoint.Sections // nil: nothing survives a restart
	api        *client.Connection   // nil without an API server
	apiPods    *apiPods             // nil without one, and with manifests
	apiNode    *client.Node         // nil without one
	client     *cri.Client          // nil without a runtime
	runtime    healthz.Finding      // whether it answers
	neighbour  *neighbour
	policies   *policies
	collecting *collecting
	metrics    *metrics.Metrics
	reporter   *reporter
	notifier   *cgroupnotify.Notifier // nil: the time alone
	thread     *agent.Thread
	ears
}

// open puts the program together: the kernel first, which has to be there, then
// whatever else there is.
func (p *program) open(ctx context.Context) (err error) {
	if p.node, err = openNode(p.config, p.log); err != nil {
		return err
	}
	p.close = append(p.close, p.node.Close)
	p.choices = agentpods.NewChoices(p.config.ProtectedNamespaces, p.config.EvictionPolicyNamespaces, func(problem error) {
		p.log.Warn("what a pod says of its own eviction does not count", "problem", problem)
	})
	p.choices.Exclude(ownPod(os.Getenv(podUIDVariable), ownCgroups))
	policy, err := p.config.Policy(signals.Single)
	if err != nil {
		return err
	}
	p.metrics = metrics.New(metrics.Settings{Version: p.Version, Revision: p.Revision, Configured: policy.Configured,
		Limits: []string{eviction.EmptyDirLimit, eviction.PodLimit, eviction.ContainerLimit}, LinesLost: p.lines.Lost})
	p.node.metrics = p.metrics
	p.notifier = p.openNotifier()
	p.state = openState(p.config, p.log)
	if p.state != nil {
		p.close = append(p.close, p.state.Close)
	}
	p.openSafety()
	if err := p.openAPI(ctx); err != nil {
		return err
	}
	if err := p.openRuntime(ctx); err != nil {
		return err
	}
	p.neighbour = meetNeighbour(p.config, p.apiNode, p.node.findPods, p.log)
	p.crew.Go(func() { p.neighbour.watch(ctx) })
	p.policies = newPolicies(p.config, p.node.disks, p.neighbour, p.log)
	if p.config.PodManifests != "" {
		files := openManifests(p.config.PodManifests, p.choices, p.log)
		p.node.source = files
		p.crew.Go(func() { files.watch(ctx, p.config.PodManifests) })
	}
	if err := p.openReporter(ctx); err != nil {
		return err
	}
	p.openCollecting(ctx)
	p.listen(ctx)
	p.node.Refresh(ctx)
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
func (p *program) openAPI(ctx context.Context) error {
	connection, err := client.Connect(client.Options{Kubeconfig: p.config.Kubeconfig, NodeName: p.config.NodeName,
		UserAgent: "plimsoll-agent/" + p.Version, Choices: p.choices, Log: p.log})
	if err != nil {
		return err
	}
	if !connection.Configured() {
		p.log.Info("no API server: pods are those of --pod-manifests, and nobody is told of evictions but this log")
		return nil
	}
	p.api = connection
	p.apiNode = client.WatchNode(ctx, connection, p.hasSpoken)
	if p.config.PodManifests != "" {
		return nil
	}
	p.apiPods = watchPods(ctx, connection, p.choices, p.state, p.log)
	p.node.source = p.apiPods
	return nil
}

// openRuntime finds the container runtime, and what it alone knows: where
// images and layers are. Nothing waits for it.
func (p *program) openRuntime(ctx context.Context) error {
	c := p.config
	endpoint, err := examine.RuntimeEndpoint(c)
	switch {
	case errors.Is(err, examine.ErrNoRuntime):
		p.log.Info("no container runtime: nothing is collected, and writable layers are not measured", "reason", err)
	case err != nil:
		return err
	default:
		if p.client, err = cri.Open(cri.Options{Endpoint: endpoint, Timeout: c.RuntimeRequestTimeout}); err != nil {
			return err
		}
		p.close = append(p.close, func() { _ = p.client.Close() })
	}
	disks := stats.DiskOptions{HostRoot: c.HostRoot, NodeDirectory: existing(c.HostRoot, c.RootDir)}
	directories := stats.DirectoryOptions{HostRoot: c.HostRoot, KubeletRoot: c.RootDir, PodLogs: c.PodLogsDir}
	if p.client != nil {
		disks.Filesystems, directories.Layers = p.client.ImageFilesystems, p.client.ContainerStats
	}
	p.node.disks, p.node.directories = stats.OpenDisks(disks), stats.OpenDirectories(directories)
	p.crew.Go(func() { p.node.disks.Run(ctx) })
	if p.client != nil {
		p.crew.Go(func() { p.watchRuntime(ctx) })
		p.crew.Go(func() { p.node.sandboxes.watch(ctx, p.client.Sandboxes) })
	}
	if p.client != nil && p.apiPods != nil {
		renew := p.node.sandboxes.renew
		p.apiPods.renewed.Store(&renew)
		p.crew.Go(func() { p.apiPods.askRuntime(ctx, p.client) })
	}
	return p.openProvider()
}

// openCollecting prepares to make room on disks.
func (p *program) openCollecting(ctx context.Context) {
	p.collecting = &collecting{node: p.node, neighbour: p.neighbour, pods: p.apiPods, safety: p.safety, begun: time.Now(), log: p.log}
	p.reporter.collecting = p.collecting
	p.crew.Go(func() { p.collecting.measureRegularly(ctx, p.config.VolumeStatsAggPeriod) })
	if p.client == nil {
		return
	}
	var who gc.Owners = unowned{}
	if p.apiPods != nil {
		who = owners{p.apiPods}
	}
	p.collecting.client = p.client
	p.collecting.collector = newCollector(p.config, p.node, guardedRuntime{p.client, p.safety}, &sandboxImages{source: p.client}, who, collected{p.metrics, p.reporter.collection}, p.log)
	p.crew.Go(func() { p.collecting.run(ctx) })
}

// openLadder has the API server told of evictions, and asked for polite ones.
func (p *program) openLadder(ctx context.Context) error {
	if p.apiPods == nil {
		return nil
	}
	var previous []podstatus.Debt
	if p.state != nil {
		previous = debtsOf(p.state, p.log)
	}
	options := podstatus.Options{}
	if p.client != nil {
		options.Running = running(p.client)
	}
	teller := podstatus.New(p.api.Urgent(), p.api.NodeName(), p.log, func(debts []podstatus.Debt) {
		p.metrics.StatusDebts(len(debts))
		if p.state != nil {
			p.state.Save(savedDebts, debts)
		}
	}, options)
	l, requests, err := ladderOf(p.api, p.config.SoftEviction, teller, p.apiPods, p.metrics, p.reporter.publish, p.log)
	if err != nil {
		return err
	}
	requests.safety, p.requests = p.safety, requests
	p.node.ladder = l
	p.crew.Go(func() { teller.Run(ctx, previous) })
	look := func() {
		teller.Look(p.apiPods.Get)
		teller.Repair(p.apiPods.Unexplained(), p.apiPods.Has)
	}
	p.apiPods.looks.Store(&look)
	look() // the pods may have come before
	p.crew.Go(func() { requests.tidy(ctx) })
	return nil
}

// crewWait bounds the wait for what runs beside the loop: a request to a runtime
// or a server that does not answer.
const crewWait = 5 * time.Second

// Close ends the program. The ctx of open must have ended.
func (p *program) Close() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.crew.Wait()
	}()
	select {
	case <-gone:
	case <-time.After(crewWait):
		p.log.Warn("left without waiting for what does not answer")
	}
	for i := len(p.close) - 1; i >= 0; i-- {
		p.close[i]()
	}
}
