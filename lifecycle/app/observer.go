package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/reload"
	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/config"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// An observer reports the state and the decisions of a controller: to the decision log,
// to metrics, probes and /explain.
type observer struct {
	controller *lifecycle.Controller
	watch      *reload.Watch[config.Controller] // of the configuration file
	metrics    *metrics.Controller
	lines      *decisionlog.Lines
}

// answerTimeout bounds a query of the goroutine that owns the fleet, which answers between
// two rounds.
const answerTimeout = 2 * time.Second

// logDecision writes a line of the decision log.
func (o *observer) logDecision(d lifecycle.Decision) { o.lines.JSON(d) }

// serve serves probes, metrics and /explain. Returns an error if an address or the socket
// can not be opened: the state of the controller could not be observed.
func (o *observer) serve(ctx context.Context, c *config.Controller, review healthz.Review, group *sync.WaitGroup, log *slog.Logger) error {
	addresses := healthz.Addresses{Socket: c.HealthSocket, TCP: c.HealthzBindAddress, CertFile: c.TLSCertFile, KeyFile: c.TLSPrivateKeyFile}
	all, err := healthz.Open(ctx, addresses, healthz.Settings{
		Live:    []healthz.Check{{Name: "loop", Err: o.controller.Live}},
		Ready:   []healthz.Check{{Name: "cluster", Err: o.controller.Ready, Note: o.role}, {Name: "config", Err: o.watch.Err, Note: o.watch.Note, Lenient: true}},
		Metrics: o.metrics.Handler(),
		Explain: o,
		Config:  o.watch,
		Log:     log,
	}, review)
	if err != nil {
		return errors.Join(err, all.Close())
	}
	all.Run(ctx, group, log)
	return nil
}

// role describes a healthy controller for /readyz.
func (o *observer) role() string {
	switch why := o.controller.DryRunReason(); {
	case !o.controller.Leads():
		return "another replica leads, or none yet"
	case why != "":
		return "leads, and only logs its decisions: " + why
	}
	return "leads"
}

// census returns the numbers of the cluster for metrics; false if they are not known.
func (o *observer) census() (metrics.Cluster, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	n, err := o.controller.Census(ctx)
	if err != nil || !n.Synced {
		return metrics.Cluster{}, false
	}
	c := metrics.Cluster{
		Nodes: n.Nodes, Pods: n.Pods, EvictedPods: n.EvictedPods, Renewals: n.Renewals, Leading: n.Leads, ScheduledPodEvictions: n.Timers, Suspected: n.SuspectedNodes,
		BreakerOpen: n.BreakerOpen, BudgetExceeded: n.BudgetExceeded, Replacing: n.Replaces,
	}
	for _, z := range n.Zones {
		c.Zones = append(c.Zones, metrics.Zone{
			Name: z.Place.String(), State: z.State.String(), Rate: z.Rate, Size: z.Size, Unready: z.Unready, Waiting: z.Waiting,
		})
	}
	return c, true
}

func newMetrics(o Options, lines *decisionlog.Lines, obs *observer) *metrics.Controller {
	return metrics.NewController(metrics.ControllerSettings{
		Version: o.Version, Revision: o.Revision, LinesDropped: lines.Lost,
		States:  []string{zones.Normal.String(), zones.PartialDisruption.String(), zones.FullDisruption.String()},
		Classes: lifecycle.Classes(), Results: lifecycle.Results(), Decisions: lifecycle.Decisions(),
		Cluster: obs.census, Config: func() metrics.Config { return metrics.Config(obs.watch.Status()) },
	})
}

// requestOfPod returns the soft eviction that a pod is marked with; nil if there is none.
func requestOfPod(pod *corev1.Pod) (*model.Request, error) {
	r, marked, err := podstatus.Marked(pod)
	if err != nil || !marked {
		return nil, err
	}
	return &model.Request{Cause: r.Cause, GraceSeconds: r.GracePeriodSeconds, Since: r.Since}, nil
}

// An explanation is the answer of /explain for a node (docs/reference/decision-log.md). Times that are
// not known are omitted.
type explanation struct {
	Node          string    `json:"node"`
	Leads         bool      `json:"leads"` // else nothing is known of decisions
	Ready         string    `json:"ready"`
	Verdict       string    `json:"health"`
	LastHeartbeat time.Time `json:"lastHeartbeat,omitzero"`
	Source        string    `json:"source,omitempty"`
	GraceEnds     time.Time `json:"graceEnds,omitzero"`
	Unready       time.Time `json:"notReadySince,omitzero"`
	Zone          string    `json:"zone"`
	ZoneState     string    `json:"zoneState,omitempty"`
	ZoneRate      float64   `json:"zoneRate"`
	Queued        bool      `json:"queued"`
	QueuePosition int       `json:"queuePosition"`
	ExpectedTaint time.Time `json:"expectedTaint,omitzero"`
	Pods          int       `json:"pods"`
	NextPod       time.Time `json:"nextPod,omitzero"`
	Next          string    `json:"next,omitempty"`
	BlockedBy     string    `json:"blockedBy,omitempty"`
	Until         time.Time `json:"until,omitzero"`
	Failures      int       `json:"failures"`
}

func newExplanation(e *core.Explanation) explanation {
	x := explanation{
		Node: e.Node, Leads: e.Leads, Ready: e.Ready.String(), Verdict: string(e.Health), LastHeartbeat: e.LastHeartbeat.UTC(), Source: string(e.Source),
		GraceEnds: e.GraceEnds.UTC(), Unready: e.Since.UTC(), Zone: e.Zone.String(), ZoneRate: e.Rate, Queued: e.Queued, QueuePosition: e.QueuePosition,
		ExpectedTaint: e.ExpectedTaint.UTC(), Pods: e.Pods, NextPod: e.NextPod.UTC(), Next: e.Next, BlockedBy: e.BlockedBy.String(), Until: e.Until.UTC(), Failures: e.Failures,
	}
	if e.Leads {
		x.ZoneState = e.State.String()
	}
	return x
}

// ServeHTTP answers /explain for the node of the query.
func (o *observer) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("node")
	if name == "" {
		http.Error(out, "name a node: /explain?node=NAME", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	e, err := o.controller.Explain(ctx, name)
	switch {
	case err != nil:
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	case !e.Known:
		http.Error(out, fmt.Sprintf("no node %q is known", name), http.StatusNotFound)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(newExplanation(&e)) // a client that has disconnected reads no error
}
