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
const savedDebts = "debts"

// statuses implements ladder.Status.
type statuses struct {
	teller  *podstatus.Teller
	pods    *apiPods
	metrics *metrics.Metrics
}

// notice is a ladder's notice as the API server gets it.
func notice(n evict.Notice, pods *apiPods) podstatus.Notice {
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

func (s *statuses) Owe(n evict.Notice) { s.teller.Owe(notice(n, s.pods)) }

func (s *statuses) Tell(ctx context.Context, n evict.Notice) error {
	err := s.teller.Evicted(ctx, notice(n, s.pods))
	if err != nil {
		s.metrics.APIFailed(metrics.PatchPodStatus)
	}
	return err
}

func (s *statuses) Killed(n evict.Notice) { s.teller.Killed(n.Eviction.Pod.UID) }

func (s *statuses) Spared(n evict.Notice) { s.teller.Spared(n.Eviction.Pod.UID) }

func (s *statuses) Announce(n evict.Notice) { s.teller.Announce(notice(n, s.pods)) }

// refusalPause is how long a budget that refuses is left alone at least.
const refusalPause = 5 * time.Second

// requests implements ladder.Soft, and takes back what nobody asks for any more.
type requests struct {
	soft    podstatus.Soft
	pods    *apiPods
	metrics *metrics.Metrics
	safety  *safety
	log     *slog.Logger

	mu    sync.Mutex
	asked string // UID of the pod that is asked for now
	said  string // the last refusal, so that it is said once
	// standing are requests that somebody else is to act on, by the pod's UID.
	standing map[string]podstatus.Notice
}

func (r *requests) Request(ctx context.Context, n evict.Notice, grace time.Duration) (evict.Answer, error) {
	if err := r.safety.may(); err != nil { // a budget may have refused for hours
		return evict.Answer{}, err
	}
	r.ask(n.Eviction.Pod.UID)
	answer, err := r.soft.Request(ctx, notice(n, r.pods), int64(grace/time.Second))
	if err != nil {
		r.metrics.APIFailed(metrics.EvictPod)
		return evict.Answer{}, err
	}
	switch answer.Outcome {
	case podstatus.Refused:
		r.metrics.SoftEvictionRefused()
		return evict.Answer{Retry: max(answer.RetryAfter, refusalPause), Why: answer.Message}, nil
	case podstatus.Asked:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.standing[n.Eviction.Pod.UID] = notice(n, r.pods)
		return evict.Answer{}, nil
	}
	return evict.Answer{Accepted: true}, nil
}

func (r *requests) ask(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != uid {
		r.asked, r.said = uid, ""
	}
}

func (r *requests) Withdraw(ctx context.Context, n evict.Notice) error {
	r.ask("")
	return r.soft.Withdraw(ctx, notice(n, r.pods))
}

// Ending reports whether the API server has the pod deleted, or knows it no more.
func (r *requests) Ending(n evict.Notice) bool {
	uid := n.Eviction.Pod.UID
	object, known := r.pods.Get(uid)
	return known && object.DeletionTimestamp != nil || !known && r.pods.State(uid) == client.Gone
}

// refused says why a soft eviction does not go ahead.
func (r *requests) refused(e *eviction.Eviction, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said != why {
		r.said = why
		r.log.Warn("a soft eviction does not go ahead: it is asked for again until its threshold clears, a hard one is crossed, or it is given up on",
			"pod", e.Pod.Key(), "uid", e.Pod.UID, "cause", e.Cause, "why", why)
	}
}

// tidyPeriod is how often marks are looked for that nobody stands behind: of a
// withdrawal that failed, or of a predecessor.
const tidyPeriod = 15 * time.Second

func (r *requests) tidy(ctx context.Context) {
	again(ctx, tidyPeriod, func() bool {
		r.tidyAll(ctx)
		return true
	})
}

// forget takes requests back whose pods have ended: where they are published,
// the controller would go on reading them, and no more than a hundred.
func (r *requests) forget(ctx context.Context, active []signals.Pod) {
	r.mu.Lock()
	standing := maps.Clone(r.standing) // whoever has to hurry does not wait for the server
	r.mu.Unlock()
	for uid, n := range standing {
		ended := !slices.ContainsFunc(active, func(p signals.Pod) bool { return p.UID == uid })
		if ended && r.soft.Withdraw(ctx, n) == nil {
			r.mu.Lock()
			delete(r.standing, uid)
			r.mu.Unlock()
		}
	}
}

// retire takes all requests back, and reports whether none stands any more, of
// this agent or of a predecessor.
func (r *requests) retire(ctx context.Context) (done bool) {
	r.ask("")
	r.tidyAll(ctx)
	r.forget(ctx, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	active := r.pods.Active()
	return len(r.standing) == 0 && !slices.ContainsFunc(active, func(p signals.Pod) bool {
		object, known := r.pods.Get(p.UID)
		if !known {
			return false
		}
		_, marked, err := podstatus.Marked(object)
		return marked && err == nil // what is no mark of ours stays
	})
}

func (r *requests) tidyAll(ctx context.Context) {
	active := r.pods.Active() // another list may take its place meanwhile
	for i := range active {
		r.unmark(ctx, active[i].UID)
	}
	r.forget(ctx, active)
}

func (r *requests) unmark(ctx context.Context, uid string) {
	r.mu.Lock()
	stands := r.asked == uid
	r.mu.Unlock()
	object, known := r.pods.Get(uid)
	if stands || !known {
		return
	}
	marked, is, err := podstatus.Marked(object)
	if !is || err != nil {
		return
	}
	if err := r.soft.Withdraw(ctx, podstatus.Notice{UID: marked.UID, Namespace: marked.Namespace, Name: marked.Name, Cause: marked.Cause, Decided: marked.Since}); err != nil {
		r.metrics.APIFailed(metrics.PatchPodStatus)
	}
}

// ladderOf makes the ladder of pods that come from the API server.
func ladderOf(c *client.Connection, way string, teller *podstatus.Teller, pods *apiPods, m *metrics.Metrics, publish func([]podstatus.Request), log *slog.Logger) (*evict.Ladder, *requests, error) {
	soft, err := podstatus.NewSoft(way, c.Urgent(), publish)
	if err != nil {
		return nil, nil, err
	}
	r := &requests{soft: soft, pods: pods, metrics: m, log: log, standing: map[string]podstatus.Notice{}}
	return &evict.Ladder{Status: &statuses{teller, pods, m}, Soft: r, Refused: r.refused}, r, nil
}
