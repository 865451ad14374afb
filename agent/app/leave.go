package app

import (
	"context"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/arming"
)

// settlePace is how often a disarmed agent sees whether all that it takes back is
// gone.
const settlePace = 250 * time.Millisecond

// settle follows what becomes of a disarmed agent's traces: once nothing of it
// stands in the cluster that is remembered, and one that leaves removes its files,
// too.
func (p *program) settle(ctx context.Context) {
	var erased bool
	for {
		now := p.safety.holds()
		if left := now.Reason == arming.HasLeft; erased && !left {
			p.state.Resume()
			erased = false
		}
		pause := time.NewTimer(settlePace)
		if p.takenBack(ctx, now) {
			pause.Stop()
			erased = erased || p.state != nil && now.State == arming.Leaving
		}
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-now.next:
			pause.Stop()
		case <-pause.C:
		}
	}
}

// takenBack reports whether there is nothing left to take back for what holds.
func (p *program) takenBack(ctx context.Context, now *standing) bool {
	switch {
	case now.armed(), now.Reason == arming.HasLeft:
		return true
	case p.reporter.conditions != nil && !p.reporter.conditions.Withdrawn():
		return false
	case now.State == arming.Leaving:
		return p.left(ctx)
	}
	p.safety.say(func(w *arming.Words) { w.Acted = w.Acted && w.Decide().State == arming.Armed })
	return true
}

// left takes the rest back, and says so when nothing stays behind.
func (p *program) left(ctx context.Context) bool {
	if p.requests != nil && !p.requests.retire(ctx) {
		return false
	}
	err := p.safety.file.Remove()
	if err == nil && p.state != nil {
		err = p.state.Erase()
	}
	if p.complain(err); err != nil {
		return false
	}
	p.safety.say(func(w *arming.Words) {
		if w.File = p.safety.file.State(); w.Decide().State == arming.Leaving {
			w.Left, w.Acted = true, false
		}
	})
	return true
}

// complain logs the first of a row of faults.
func (p *program) complain(err error) {
	if err != nil && p.complained == "" {
		p.log.Error("the agent leaves something behind; it is tried again", "error", err)
	}
	if p.complained = ""; err != nil {
		p.complained = err.Error()
	}
}

// departWait bounds what is done for an agent's DaemonSet that is gone, between
// SIGTERM and the end.
const departWait = 5 * time.Second

// depart takes everything back when the agent ends for good: its DaemonSet is
// gone, or going. For any other end, such as an update, all stays as it is. It is
// tried, not promised: who deletes everything at once takes the rights away, too.
func (p *program) depart() {
	ctx, cancel := context.WithTimeout(context.Background(), departWait)
	defer cancel()
	if !p.uninstalled(ctx) {
		return
	}
	p.safety.say(func(w *arming.Words) { w.Departing = true })
	for now := p.safety.holds(); now.Reason != arming.HasLeft; now = p.safety.holds() {
		select {
		case <-now.next:
		case <-ctx.Done():
			p.log.Warn("ended before everything was taken back")
			return
		}
	}
	if h := p.reporter.heartbeat; h != nil { // the lease is to say so
		before, _, _ := h.Counts()
		h.Kick()
		again(ctx, settlePace/25, func() bool {
			renewed, _, _ := h.Counts()
			return renewed == before
		})
	}
}

func (p *program) uninstalled(ctx context.Context) bool {
	namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("PLIMSOLL_DAEMONSET")
	if namespace == "" || name == "" || p.api == nil {
		return false
	}
	set, err := p.api.Client().AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			p.log.Warn("whether the agent is being removed is not known: what it has written stays", "error", err)
		}
		return apierrors.IsNotFound(err)
	}
	return set.DeletionTimestamp != nil
}
