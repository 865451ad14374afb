package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/stats"
)

// openReporter makes what tells others of the node, and what listens to those
// who ask.
func (p *program) openReporter(ctx context.Context) error {
	p.reporter = &reporter{version: p.Version, lines: p.lines, state: p.state, metrics: p.metrics, safety: p.safety, ctx: ctx,
		pulse: healthz.NewPulse(p.config.MonitoringPeriod)}
	if err := p.openLadder(ctx); err != nil {
		return err
	}
	if p.api != nil {
		if err := p.openReports(ctx); err != nil {
			return err
		}
	}
	p.serve(ctx)
	return nil
}

// openReports has the cluster told of the node. A disarmed agent tells nothing but
// that it lives.
func (p *program) openReports(ctx context.Context) error {
	c, client, name := p.config, p.api.Client(), p.api.NodeName()
	mode, err := nodestatus.ParseMode(c.PressureConditions)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Where("pressureConditions"), err)
	}
	p.reporter.events = nodestatus.NewEvents(client, name, c.EvictionPressureTransitionPeriod)
	p.close = append(p.close, p.reporter.events.Close)
	p.reporter.conditions = nodestatus.NewConditions(nodestatus.ConditionParts{
		Client: client, NodeName: name, Node: p.apiNode.Object,
		Owner: func(n *corev1.Node) nodestatus.Owners {
			return mode.Owners(n, p.neighbour.thresholds(), reportedLines(p.policies.shown()))
		},
		Why: func(n *corev1.Node) string {
			return mode.Why(n, p.neighbour.thresholds(), reportedLines(p.policies.shown()))
		},
		Transition: c.EvictionPressureTransitionPeriod, Taint: c.PressureTaint, Events: p.reporter.events, Log: p.log,
		Alive: p.reporter.heartbeatAlive, Armed: p.safety.acts, Inherited: p.inherited,
	})
	if c.HeartbeatNamespace != "" {
		p.reporter.heartbeat = nodestatus.NewHeartbeat(nodestatus.HeartbeatParts{Client: client, NodeName: name, Namespace: c.HeartbeatNamespace,
			Node: p.apiNode.Object, Period: c.MonitoringPeriod, Vitals: p.reporter.tellVitals, Log: p.log})
		p.crew.Go(func() { p.reporter.heartbeat.Run(ctx) })
	}
	p.crew.Go(func() { p.reporter.conditions.Run(ctx) }) // now that there is a heartbeat to ask
	if c.ReportNodeLease {
		p.reportNodeLease(ctx)
	}
	return nil
}

// reportNodeLease renews the node's lease from the first time on that the agent is
// armed. It does not end with that: a node whose heartbeat stops is given up, with
// all its pods.
func (p *program) reportNodeLease(ctx context.Context) {
	lease := nodestatus.NewNodeLease(nodestatus.NodeLeaseParts{Client: p.api.Client(), NodeName: p.api.NodeName(), Node: p.apiNode.Object,
		Alive: p.reporter.heartbeatAlive, Log: p.log})
	p.crew.Go(func() {
		if !p.inherited && !p.safety.wait(ctx) {
			return
		}
		if err := lease.Run(ctx); err != nil {
			p.log.Error("the node's lease is not renewed", "error", err)
		}
	})
}

// tellVitals is what a heartbeat tells of the agent.
func (r *reporter) tellVitals() nodestatus.Vitals {
	standing := r.safety.holds()
	v := nodestatus.Vitals{Version: r.version, Armed: standing.armed(), ArmedReason: standing.Reason, Findings: standing.findings}
	if namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME"); name != "" {
		v.Pod = namespace + "/" + name
	}
	if now := r.vitals.Load(); now != nil {
		v.Conditions, v.Thresholds = now.conditions, now.digest
	}
	if asked := r.asked.Load(); asked != nil {
		v.SoftEvictions = *asked
	}
	return v
}

// heartbeatAlive says what is wrong with the agent, whose life is the node's
// where there is no kubelet.
func (r *reporter) heartbeatAlive(now time.Time) error {
	if r.heartbeat == nil {
		return r.pulse.Err()
	}
	return r.heartbeat.Alive(now)
}

// serve answers /livez, /readyz and /metrics. What can not be opened is logged: the
// node is protected all the same.
func (p *program) serve(ctx context.Context) {
	var review healthz.Review
	if p.api != nil {
		review = client.Review(p.api.Urgent())
	}
	c := p.config
	addresses := healthz.Addresses{Socket: c.HealthSocket, TCP: c.HealthzBindAddress, CertFile: c.TLSCertFile, KeyFile: c.TLSPrivateKeyFile}
	all, err := healthz.Open(ctx, addresses, healthz.Settings{
		Live:    []healthz.Check{{Name: "loop", Err: p.reporter.pulse.Err}},
		Ready:   p.readiness(),
		Metrics: p.metrics.Handler(),
		Log:     p.log,
	}, review)
	if err != nil {
		p.log.Error("Failed to open all endpoints", "error", err)
	}
	all.Run(ctx, &p.crew, p.log)
}

// readiness is what the agent needs of others.
func (p *program) readiness() []healthz.Check {
	checks := []healthz.Check{{Name: "memory", Err: p.reporter.memory.Err}, {Name: "pods", Err: p.podsKnown},
		{Name: "notifications", Err: func() error { return nil }, Note: p.notifications}}
	if p.api != nil {
		checks = append(checks, healthz.Check{Name: "api-server", Err: p.apiNode.Err})
	}
	if p.client != nil {
		checks = append(checks, healthz.Check{Name: "runtime", Err: p.runtime.Err})
	}
	return checks
}

var errNoPods = errors.New("no pods are known: give --kubeconfig, or --pod-manifests")

func (p *program) podsKnown() error {
	if p.node.source == nil {
		return errNoPods
	}
	return p.node.source.fault()
}

// runtimePulse is how often the runtime is asked whether it is there.
const runtimePulse = 10 * time.Second

func (p *program) watchRuntime(ctx context.Context) {
	again(ctx, runtimePulse, func() bool {
		_, err := p.client.Version(ctx)
		if ctx.Err() != nil {
			return false
		}
		if p.runtime.Set(err); err != nil {
			p.metrics.RuntimeFailed()
		}
		return true
	})
}

// openProvider chooses who measures pods. What another program can not tell in
// time the cgroups do.
func (p *program) openProvider() (err error) {
	c := p.config
	sampling := stats.Sampling{Period: c.MonitoringPeriod, Capacity: memoryOf(c), Otherwise: p.node.cgroups}
	switch c.StatsProvider {
	case "cri":
		if p.client == nil {
			return fmt.Errorf("%s: %q needs a container runtime: give --container-runtime-endpoint", c.Where("statsProvider"), c.StatsProvider)
		}
		p.node.provider = stats.OpenCRI(p.client, sampling)
	case "cadvisor":
		var embedded *stats.CAdvisor
		if embedded, err = stats.OpenCAdvisor(c.NodeCgroup, sampling); err == nil {
			p.node.provider = embedded
		}
	}
	return err
}

// memoryOf is the machine's memory, above which no pod can use any; 0 if it is
// not known.
func memoryOf(c *config.Agent) signals.Bytes {
	facts, err := stats.Machine(c.ProcRoot, "/sys")
	if err != nil && facts.Memory == 0 {
		return 0
	}
	return facts.Memory
}
