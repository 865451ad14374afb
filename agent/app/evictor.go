package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// statusesSection is the section of the state file with pending pod statuses and events.
const statusesSection = "pendingStatuses"

// openEvictor prepares reports of pod statuses and requests of soft evictions. Returns an
// error if the way of soft evictions is unknown.
func (a *app) openEvictor(ctx context.Context) error {
	if a.apiPods == nil {
		return nil
	}
	var previous []podstatus.PendingStatus
	if a.state != nil {
		previous = loadPendingStatuses(a.state, a.log)
	}
	options := podstatus.Options{Refused: func() { fill(a.rightRefused) }}
	if a.runtime != nil {
		options.Running = running(a.runtime)
	}
	reporter := podstatus.New(a.api.Urgent(), a.api.NodeName(), a.log, func(pending []podstatus.PendingStatus) {
		a.metrics.PendingStatuses(len(pending))
		if a.state != nil {
			a.state.Save(statusesSection, pending)
		}
	}, options)
	l, requests, err := newEvictor(a.api, a.config.SoftEviction, reporter, a.apiPods, a.metrics, a.log)
	if err != nil {
		return err
	}
	requests.arming, a.softEvictions = a.arming, requests
	a.node.evictor = l
	a.group.Go(func() { reporter.Run(ctx, previous) })
	update := func() {
		reporter.Check(a.apiPods.Get)
		reporter.Repair(a.apiPods.Unexplained(), a.apiPods.Has)
	}
	a.apiPods.onChange.Store(&update)
	update() // the pods may have come before
	a.group.Go(func() { requests.run(ctx) })
	restarts := newRestartEnder(a.node, a.apiPods, reporter)
	a.group.Go(func() { restarts.run(ctx) })
	return nil
}

// newEvictor returns the evictor of pods that come from the API server.
func newEvictor(c *client.Connection, way string, reporter *podstatus.Reporter, pods *apiPods, m *metrics.Metrics, log *slog.Logger) (*evict.Evictor, *softEvictions, error) {
	soft, err := podstatus.NewSoft(way, c.Urgent())
	if err != nil {
		return nil, nil, err
	}
	r := &softEvictions{soft: soft, pods: pods, metrics: m, log: log, outstanding: map[string]podstatus.Notice{}}
	return &evict.Evictor{Status: &statusReporter{reporter, pods}, Soft: r, Refused: r.logRefusal}, r, nil
}

// A statusReporter implements evict.Status by patches of pod statuses.
type statusReporter struct {
	reporter *podstatus.Reporter
	pods     *apiPods
}

// statusNotice converts an eviction for the API server.
func statusNotice(n evict.Notice, pods *apiPods) podstatus.Notice {
	e := n.Eviction
	converted := podstatus.Notice{
		UID: e.Pod.UID, Namespace: e.Pod.Namespace, Name: e.Pod.Name,
		Cause: e.Cause, Message: e.Message, Explanation: e.Explanation, Annotations: e.Annotations, DisruptionTarget: e.DisruptionTarget,
		Decided: n.Decided, Killed: n.Containers,
	}
	if object, known := pods.Get(e.Pod.UID); known {
		converted.ObservedGeneration = object.Generation
	}
	return converted
}

func (s *statusReporter) Enqueue(n evict.Notice) { s.reporter.Enqueue(statusNotice(n, s.pods)) }

func (s *statusReporter) Report(ctx context.Context, n evict.Notice) error {
	return s.reporter.Evicted(ctx, statusNotice(n, s.pods))
}

func (s *statusReporter) Commit(n evict.Notice) { s.reporter.Commit(n.Eviction.Pod.UID) }

func (s *statusReporter) Cancel(n evict.Notice) { s.reporter.Cancel(n.Eviction.Pod.UID) }

func (s *statusReporter) Announce(n evict.Notice) { s.reporter.Announce(statusNotice(n, s.pods)) }

// refusalPause is the shortest wait after a refusal.
const refusalPause = 5 * time.Second

// softEvictions implements evict.Soft by requests to the API server, and withdraws those that
// are obsolete.
type softEvictions struct {
	soft    podstatus.Soft
	pods    *apiPods
	metrics *metrics.Metrics
	arming  *armingState
	log     *slog.Logger

	mu          sync.Mutex
	current     string // UID of the pod of the present request
	lastRefusal string // so that each is logged once
	// outstanding are requests that the controller has to carry out, by the pod's UID.
	outstanding map[string]podstatus.Notice
}

func (s *softEvictions) Request(ctx context.Context, n evict.Notice, grace time.Duration) (evict.Answer, error) {
	if err := s.arming.mayAct(); err != nil { // a budget may have refused for hours
		return evict.Answer{}, err
	}
	s.setCurrent(n.Eviction.Pod.UID)
	answer, err := s.soft.Request(ctx, statusNotice(n, s.pods), int64(grace/time.Second))
	if err != nil {
		return evict.Answer{}, err
	}
	switch answer.Outcome {
	case podstatus.Refused:
		s.metrics.SoftEvictionRefused()
		return evict.Answer{Retry: max(answer.RetryAfter, refusalPause), Why: answer.Message}, nil
	case podstatus.Asked:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outstanding[n.Eviction.Pod.UID] = statusNotice(n, s.pods)
		return evict.Answer{}, nil
	}
	return evict.Answer{Accepted: true}, nil
}

func (s *softEvictions) setCurrent(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != uid {
		s.current, s.lastRefusal = uid, ""
	}
}

func (s *softEvictions) Withdraw(ctx context.Context, n evict.Notice) error {
	s.setCurrent("")
	return s.soft.Withdraw(ctx, statusNotice(n, s.pods))
}

// Ending reports whether the pod is being deleted, or is deleted.
func (s *softEvictions) Ending(n evict.Notice) bool {
	uid := n.Eviction.Pod.UID
	object, known := s.pods.Get(uid)
	return known && object.DeletionTimestamp != nil || !known && s.pods.State(uid) == client.Gone
}

// logRefusal logs why a soft eviction does not go ahead.
func (s *softEvictions) logRefusal(e *eviction.Eviction, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastRefusal != why {
		s.lastRefusal = why
		s.log.Warn("Soft eviction was refused, retrying until its threshold clears, a hard one is met, or the wait is over",
			"pod", e.Pod.Key(), "uid", e.Pod.UID, "cause", e.Cause, "reason", why)
	}
}

// staleMarksPeriod is the interval between searches for stale marks: of a withdrawal that
// failed, or of an earlier agent.
const staleMarksPeriod = 15 * time.Second

func (s *softEvictions) run(ctx context.Context) {
	repeat(ctx, staleMarksPeriod, func() bool {
		s.removeStaleMarks(ctx)
		return true
	})
}

// forgetEnded removes the requests of pods that have ended, with which they end.
func (s *softEvictions) forgetEnded(active []signals.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.outstanding, func(uid string, _ podstatus.Notice) bool {
		return !slices.ContainsFunc(active, func(p signals.Pod) bool { return p.UID == uid })
	})
}

// withdrawOutstanding withdraws the requests of this agent, which a watch may not show yet.
func (s *softEvictions) withdrawOutstanding(ctx context.Context) {
	s.mu.Lock()
	standing := maps.Clone(s.outstanding) // an immediate eviction does not wait for the server
	s.mu.Unlock()
	for uid, n := range standing {
		if s.soft.Withdraw(ctx, n) == nil {
			s.mu.Lock()
			delete(s.outstanding, uid)
			s.mu.Unlock()
		}
	}
}

// withdrawAll withdraws all requests, and reports whether none is left, of this agent or of
// an earlier one. Before the first list of pods that is not known.
func (s *softEvictions) withdrawAll(ctx context.Context) (done bool) {
	s.setCurrent("")
	listed := s.pods.Synced()
	s.withdrawOutstanding(ctx)
	s.removeStaleMarks(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	active := s.pods.Active()
	return listed && len(s.outstanding) == 0 && !slices.ContainsFunc(active, func(p signals.Pod) bool {
		object, known := s.pods.Get(p.UID)
		if !known {
			return false
		}
		_, marked, err := podstatus.Marked(object)
		return marked && err == nil // an unreadable mark stays
	})
}

func (s *softEvictions) removeStaleMarks(ctx context.Context) {
	active := s.pods.Active() // another list may replace it meanwhile
	for i := range active {
		s.unmark(ctx, active[i].UID)
	}
	s.forgetEnded(active)
}

func (s *softEvictions) unmark(ctx context.Context, uid string) {
	s.mu.Lock()
	stands := s.current == uid
	s.mu.Unlock()
	object, known := s.pods.Get(uid)
	if stands || !known {
		return
	}
	marked, is, err := podstatus.Marked(object)
	if !is || err != nil {
		return
	}
	// The connection counts and the next list of pods repeats what fails.
	_ = s.soft.Withdraw(ctx, podstatus.Notice{UID: marked.UID, Namespace: marked.Namespace, Name: marked.Name, Cause: marked.Cause, Decided: marked.Since})
}
