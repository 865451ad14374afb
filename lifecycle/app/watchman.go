package app

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A watchman tells others what the controller thinks and does.
type observer struct {
	controller *lifecycle.Controller
	metrics    *metrics.Controller
	lines      *nodestatus.Lines
}

// answerWait bounds the wait of who asks for the owner of the fleet, which
// answers between two rounds.
const answerTimeout = 2 * time.Second

// decided writes a line of the decision log.
func (w *observer) logDecision(d lifecycle.Decision) { w.lines.JSON(d) }

// role is what a probe tells of a controller that is well.
func (w *observer) role() string {
	switch why := w.controller.Rehearses(); {
	case !w.controller.Leads():
		return "another replica leads, or nobody yet"
	case why != "":
		return "leads, and only tells what it decides: " + why
	}
	return "leads"
}

// census is what is known of the cluster, for metrics.
func (w *observer) census() (metrics.Cluster, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	n, err := w.controller.Census(ctx)
	if err != nil || !n.Synced {
		return metrics.Cluster{}, false
	}
	c := metrics.Cluster{
		Nodes: n.Nodes, Pods: n.Pods, Kept: n.Kept, Renewals: n.Renewals, Leads: n.Leads, Timers: n.Timers, Suspects: n.Suspects,
		BreakerOpen: n.BreakerOpen, BudgetExceeded: n.BudgetExceeded, Replacing: n.Replaces,
	}
	for _, z := range n.Zones {
		c.Zones = append(c.Zones, metrics.Zone{
			Name: z.Place.String(), State: z.State.String(), Rate: z.Rate, Size: z.Size, Unready: z.Unready, Waiting: z.Waiting,
		})
	}
	return c, true
}

func newControllerMetrics(o Options, lines *nodestatus.Lines, census func() (metrics.Cluster, bool)) *metrics.Controller {
	return metrics.NewController(metrics.ControllerSettings{
		Version: o.Version, Revision: o.Revision, LinesLost: lines.Lost,
		States:  []string{zones.Normal.String(), zones.PartialDisruption.String(), zones.FullDisruption.String()},
		Classes: lifecycle.Classes(), Results: lifecycle.Results(), Decisions: lifecycle.Decisions(),
		Cluster: census,
	})
}

// requested reads the soft eviction that a pod is marked with.
func requested(pod *corev1.Pod) (*model.Request, error) {
	r, marked, err := podstatus.Marked(pod)
	if err != nil || !marked {
		return nil, err
	}
	return &model.Request{Cause: r.Cause, GraceSeconds: r.GracePeriodSeconds, Since: r.Since}, nil
}

// requestedIn reads the soft evictions that an agent without rights on pods asks
// for in its lease.
func requestedIn(annotations map[string]string) (map[string]model.Request, error) {
	requests, err := podstatus.ParseRequests(annotations[nodestatus.AnnotationSoftEvictions])
	if err != nil || len(requests) == 0 {
		return nil, err
	}
	asked := make(map[string]model.Request, len(requests))
	for _, r := range requests {
		asked[r.UID] = model.Request{Cause: r.Cause, GraceSeconds: r.GracePeriodSeconds, Since: r.Since}
	}
	return asked, nil
}
