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

// savedDebts is the section of the state file with what the API server has to
// be told yet.
const statusesSection = "debts"

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

// ladderOf makes the ladder of pods that come from the API server.
func newEvictor(c *client.Connection, way string, teller *podstatus.Teller, pods *apiPods, m *metrics.Metrics, publish func([]podstatus.Request), log *slog.Logger) (*evict.Ladder, *softEvictions, error) {
	soft, err := podstatus.NewSoft(way, c.Urgent(), publish)
	if err != nil {
		return nil, nil, err
	}
	r := &softEvictions{soft: soft, pods: pods, metrics: m, log: log, outstanding: map[string]podstatus.Notice{}}
	return &evict.Ladder{Status: &statusReporter{teller, pods, m}, Soft: r, Refused: r.logRefusal}, r, nil
}

// statuses implements ladder.Status.
type statusReporter struct {
	reporter *podstatus.Teller
	pods     *apiPods
	metrics  *metrics.Metrics
}

// notice is a ladder's notice as the API server gets it.
func statusNotice(n evict.Notice, pods *apiPods) podstatus.Notice {
	e := n.Eviction
	converted := podstatus.Notice{
		UID: e.Pod.UID, Namespace: e.Pod.Namespace, Name: e.Pod.Name,
		Cause: e.Cause, Message: e.Message, Annotations: e.Annotations, DisruptionTarget: e.DisruptionTarget,
		Decided: n.Decided, Killed: n.Containers,
	}
	if object, known := pods.Get(e.Pod.UID); known {
		converted.ObservedGeneration = object.Generation
	}
	return converted
}

func (s *statusReporter) Owe(n evict.Notice) { s.reporter.Owe(statusNotice(n, s.pods)) }

func (s *statusReporter) Tell(ctx context.Context, n evict.Notice) error {
	err := s.reporter.Evicted(ctx, statusNotice(n, s.pods))
	if err != nil {
		s.metrics.APIFailed(metrics.PatchPodStatus)
	}
	return err
}

func (s *statusReporter) Killed(n evict.Notice) { s.reporter.Killed(n.Eviction.Pod.UID) }

func (s *statusReporter) Spared(n evict.Notice) { s.reporter.Spared(n.Eviction.Pod.UID) }

func (s *statusReporter) Announce(n evict.Notice) { s.reporter.Announce(statusNotice(n, s.pods)) }

// refusalPause is how long a budget that refuses is left alone at least.
const refusalPause = 5 * time.Second

// requests implements ladder.Soft, and takes back what nobody asks for any more.
type softEvictions struct {
	soft    podstatus.Soft
	pods    *apiPods
	metrics *metrics.Metrics
	arming  *armingState
	log     *slog.Logger

	mu          sync.Mutex
	current     string // UID of the pod that is asked for now
	lastRefusal string // the last refusal, so that it is said once
	// standing are requests that somebody else is to act on, by the pod's UID.
	outstanding map[string]podstatus.Notice
}

func (s *softEvictions) Request(ctx context.Context, n evict.Notice, grace time.Duration) (evict.Answer, error) {
	if err := s.arming.mayAct(); err != nil { // a budget may have refused for hours
		return evict.Answer{}, err
	}
	s.setCurrent(n.Eviction.Pod.UID)
	answer, err := s.soft.Request(ctx, statusNotice(n, s.pods), int64(grace/time.Second))
	if err != nil {
		s.metrics.APIFailed(metrics.EvictPod)
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

// Ending reports whether the API server has the pod deleted, or knows it no more.
func (s *softEvictions) Ending(n evict.Notice) bool {
	uid := n.Eviction.Pod.UID
	object, known := s.pods.Get(uid)
	return known && object.DeletionTimestamp != nil || !known && s.pods.State(uid) == client.Gone
}

// refused says why a soft eviction does not go ahead.
func (s *softEvictions) logRefusal(e *eviction.Eviction, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastRefusal != why {
		s.lastRefusal = why
		s.log.Warn("a soft eviction does not go ahead: it is asked for again until its threshold clears, a hard one is crossed, or it is given up on",
			"pod", e.Pod.Key(), "uid", e.Pod.UID, "cause", e.Cause, "why", why)
	}
}

// tidyPeriod is how often marks are looked for that nobody stands behind: of a
// withdrawal that failed, or of a predecessor.
const staleMarksPeriod = 15 * time.Second

func (s *softEvictions) run(ctx context.Context) {
	repeat(ctx, staleMarksPeriod, func() bool {
		s.removeStaleMarks(ctx)
		return true
	})
}

// forget takes requests back whose pods have ended: where they are published,
// the controller would go on reading them, and no more than a hundred.
func (s *softEvictions) withdrawEnded(ctx context.Context, active []signals.Pod) {
	s.mu.Lock()
	standing := maps.Clone(s.outstanding) // whoever has to hurry does not wait for the server
	s.mu.Unlock()
	for uid, n := range standing {
		ended := !slices.ContainsFunc(active, func(p signals.Pod) bool { return p.UID == uid })
		if ended && s.soft.Withdraw(ctx, n) == nil {
			s.mu.Lock()
			delete(s.outstanding, uid)
			s.mu.Unlock()
		}
	}
}

// retire takes all requests back, and reports whether none stands any more, of
// this agent or of a predecessor.
func (s *softEvictions) withdrawAll(ctx context.Context) (done bool) {
	s.setCurrent("")
	s.removeStaleMarks(ctx)
	s.withdrawEnded(ctx, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	active := s.pods.Active()
	return len(s.outstanding) == 0 && !slices.ContainsFunc(active, func(p signals.Pod) bool {
		object, known := s.pods.Get(p.UID)
		if !known {
			return false
		}
		_, marked, err := podstatus.Marked(object)
		return marked && err == nil // what is no mark of ours stays
	})
}

func (s *softEvictions) removeStaleMarks(ctx context.Context) {
	active := s.pods.Active() // another list may take its place meanwhile
	for i := range active {
		s.unmark(ctx, active[i].UID)
	}
	s.withdrawEnded(ctx, active)
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
	if err := s.soft.Withdraw(ctx, podstatus.Notice{UID: marked.UID, Namespace: marked.Namespace, Name: marked.Name, Cause: marked.Cause, Decided: marked.Since}); err != nil {
		s.metrics.APIFailed(metrics.PatchPodStatus)
	}
}
