package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// openNodeReports opens events, conditions and leases of the node. A disarmed agent renews
// its lease only. Returns an error if the mode of conditions is unknown.
func (a *app) openNodeReports(ctx context.Context) error {
	c, client, name := a.config, a.api.Client(), a.api.NodeName()
	mode, err := nodestatus.ParseMode(c.PressureConditions)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Where("pressureConditions"), err)
	}
	a.reporter.events = nodestatus.NewEvents(client, name, c.EvictionPressureTransitionPeriod)
	a.reporter.oomKills.events = a.reporter.events
	a.closers = append(a.closers, a.reporter.events.Close)
	a.reporter.conditions = nodestatus.NewConditions(nodestatus.ConditionParts{
		Client: client, NodeName: name, Node: a.apiNode.Object,
		Owner: func(n *corev1.Node) nodestatus.Owners {
			return mode.Owners(n, a.kubelet.thresholds(), reportedThresholds(a.policies.published()))
		},
		Why: func(n *corev1.Node) string {
			return mode.Why(n, a.kubelet.thresholds(), reportedThresholds(a.policies.published()))
		},
		Transition: c.EvictionPressureTransitionPeriod, Taint: c.PressureTaint, Events: a.reporter.events, Log: a.log,
		Alive: a.reporter.heartbeatAlive, Armed: a.arming.armed, Inherited: a.inherited,
	})
	if c.HeartbeatNamespace != "" {
		a.reporter.heartbeat = heartbeat.New(heartbeat.Parts{Client: client, NodeName: name, Namespace: c.HeartbeatNamespace,
			Node: a.apiNode.Object, Period: c.MonitoringPeriod, Vitals: a.reporter.currentVitals, Log: a.log})
		a.group.Go(func() { a.reporter.heartbeat.Run(ctx) })
	}
	a.group.Go(func() { a.reporter.conditions.Run(ctx) }) // after the heartbeat, which it reads
	a.openEvictionRecords(ctx)
	if c.ReportNodeLease {
		a.reportNodeLease(ctx)
	}
	return nil
}

// reportNodeLease renews the node's lease once the agent has been armed for the first time,
// and goes on when it is disarmed: a node whose lease expires loses all its pods.
func (a *app) reportNodeLease(ctx context.Context) {
	lease := heartbeat.NewNodeLease(heartbeat.NodeLeaseParts{Client: a.api.Client(), NodeName: a.api.NodeName(), Node: a.apiNode.Object,
		Alive: a.reporter.heartbeatAlive, Log: a.log})
	a.group.Go(func() {
		if !a.inherited && !a.arming.waitArmed(ctx) {
			return
		}
		if err := lease.Run(ctx); err != nil {
			a.log.Error("Failed to renew the node's lease", "error", err)
		}
	})
}

// currentVitals returns the state of the agent for a heartbeat.
func (r *reporter) currentVitals() heartbeat.Vitals {
	decision := r.arming.current()
	v := heartbeat.Vitals{Version: r.version, Armed: decision.armed(), ArmedReason: decision.Reason, Findings: decision.findings}
	if namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME"); name != "" {
		v.Pod = namespace + "/" + name
	}
	if now := r.vitals.Load(); now != nil {
		v.Conditions, v.Thresholds = now.conditions, now.digest
	}
	return v
}

// heartbeatAlive returns an error if the loop or the heartbeat has stopped. Without a kubelet
// that means that the node is lost.
func (r *reporter) heartbeatAlive(now time.Time) error {
	if r.heartbeat == nil {
		return r.pulse.Err()
	}
	return r.heartbeat.Alive(now)
}

// serve serves /livez, /readyz and /metrics. An address that can not be opened is logged:
// the node is protected without it.
func (a *app) serve(ctx context.Context) {
	var review healthz.Review
	if a.api != nil {
		review = client.Review(a.api.Urgent())
	}
	c := a.config
	addresses := healthz.Addresses{Socket: c.HealthSocket, TCP: c.HealthzBindAddress, CertFile: c.TLSCertFile, KeyFile: c.TLSPrivateKeyFile}
	all, err := healthz.Open(ctx, addresses, healthz.Settings{
		Live:    []healthz.Check{{Name: "loop", Err: a.reporter.pulse.Err}},
		Ready:   a.readiness(),
		Metrics: a.metrics.Handler(),
		Config:  a.watch,
		Log:     a.log,
	}, review)
	if err != nil {
		a.log.Error("Failed to open all endpoints", "error", err)
	}
	all.Run(ctx, &a.group, a.log)
}

// readiness returns the checks of /readyz.
func (a *app) readiness() []healthz.Check {
	checks := []healthz.Check{{Name: "memory", Err: a.reporter.memory.Err}, {Name: "pods", Err: a.podsKnown},
		{Name: "notifications", Err: func() error { return nil }, Note: a.notifications}, {Name: "config", Err: a.watch.Err, Note: a.watch.Note, Lenient: true}}
	if a.api != nil {
		checks = append(checks, healthz.Check{Name: "api-server", Err: a.apiNode.Err})
	}
	if a.runtime != nil {
		checks = append(checks, healthz.Check{Name: "runtime", Err: a.runtimeHealth.Err})
	}
	return checks
}

var errNoPods = errors.New("no pods are known: give --kubeconfig, or --pod-manifests")

func (a *app) podsKnown() error {
	if a.node.source == nil {
		return errNoPods
	}
	return a.node.source.fault()
}
