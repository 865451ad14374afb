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
const cleanupPeriod = 250 * time.Millisecond

// settle follows what becomes of a disarmed agent's traces: once nothing of it
// stands in the cluster that is remembered, and one that leaves removes its files,
// too.
func (a *app) finish(ctx context.Context) {
	var erased bool
	for {
		now := a.arming.current()
		if left := now.Reason == arming.HasLeft; erased && !left {
			a.state.Resume()
			erased = false
		}
		pause := time.NewTimer(cleanupPeriod)
		if a.withdrawn(ctx, now) {
			pause.Stop()
			erased = erased || a.state != nil && now.State == arming.Leaving
		}
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-now.superseded:
			pause.Stop()
		case <-pause.C:
		}
	}
}

// takenBack reports whether there is nothing left to take back for what holds.
func (a *app) withdrawn(ctx context.Context, now *armingDecision) bool {
	switch {
	case now.armed(), now.Reason == arming.HasLeft:
		return true
	case a.reporter.conditions != nil && !a.reporter.conditions.Withdrawn():
		return false
	case now.State == arming.Leaving:
		return a.cleanUp(ctx)
	}
	a.arming.update(func(w *arming.Words) { w.Acted = w.Acted && w.Decide().State == arming.Armed })
	return true
}

// left takes the rest back, and says so when nothing stays behind.
func (a *app) cleanUp(ctx context.Context) bool {
	if a.softEvictions != nil && !a.softEvictions.withdrawAll(ctx) {
		return false
	}
	err := a.arming.file.Remove()
	if err == nil && a.state != nil {
		err = a.state.Erase()
	}
	if a.logCleanupFault(err); err != nil {
		return false
	}
	a.arming.update(func(w *arming.Words) {
		if w.File = a.arming.file.State(); w.Decide().State == arming.Leaving {
			w.Left, w.Acted = true, false
		}
	})
	return true
}

// complain logs the first of a row of faults.
func (a *app) logCleanupFault(err error) {
	if err != nil && a.lastFault == "" {
		a.log.Error("the agent leaves something behind; it is tried again", "error", err)
	}
	if a.lastFault = ""; err != nil {
		a.lastFault = err.Error()
	}
}

// departWait bounds what is done for an agent's DaemonSet that is gone, between
// SIGTERM and the end.
const uninstallTimeout = 5 * time.Second

// depart takes everything back when the agent ends for good: its DaemonSet is
// gone, or going. For any other end, such as an update, all stays as it is. It is
// tried, not promised: who deletes everything at once takes the rights away, too.
func (a *app) cleanUpIfUninstalled() {
	ctx, cancel := context.WithTimeout(context.Background(), uninstallTimeout)
	defer cancel()
	if !a.uninstalled(ctx) {
		return
	}
	a.arming.update(func(w *arming.Words) { w.Departing = true })
	for now := a.arming.current(); now.Reason != arming.HasLeft; now = a.arming.current() {
		select {
		case <-now.superseded:
		case <-ctx.Done():
			a.log.Warn("ended before everything was taken back")
			return
		}
	}
	if h := a.reporter.heartbeat; h != nil { // the lease is to say so
		before, _, _ := h.Counts()
		h.Kick()
		repeat(ctx, cleanupPeriod/25, func() bool {
			renewed, _, _ := h.Counts()
			return renewed == before
		})
	}
}

func (a *app) uninstalled(ctx context.Context) bool {
	namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("PLIMSOLL_DAEMONSET")
	if namespace == "" || name == "" || a.api == nil {
		return false
	}
	set, err := a.api.Client().AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			a.log.Warn("whether the agent is being removed is not known: what it has written stays", "error", err)
		}
		return apierrors.IsNotFound(err)
	}
	return set.DeletionTimestamp != nil
}
