package app

import (
	"context"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/arming"
)

// cleanupPeriod is the interval between attempts of a disarmed agent to clean up.
const cleanupPeriod = 250 * time.Millisecond

// finish follows the withdrawal of a disarmed agent's conditions and taints. Once none is left
// in the cluster, that is saved. A cleaning-up agent removes its requests and files too.
func (a *app) finish(ctx context.Context) {
	var erased bool // the state file, by cleanUp
	for {
		now := a.arming.current()
		if cleaned := now.Reason == arming.CleanedUp; erased && !cleaned {
			a.state.Resume()
			erased = false
		}
		pause := time.NewTimer(cleanupPeriod)
		if a.withdrawn(ctx, now) {
			pause.Stop()
			erased = erased || a.state != nil && now.State == arming.CleaningUp
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

// withdrawn reports whether nothing is left to withdraw under the decision.
func (a *app) withdrawn(ctx context.Context, now *armingDecision) bool {
	switch {
	case now.armed(), now.Reason == arming.CleanedUp:
		return true
	case a.reporter.conditions != nil && !a.reporter.conditions.Withdrawn():
		return false
	case now.State == arming.CleaningUp:
		return a.cleanUp(ctx)
	}
	a.arming.update(func(w *arming.Inputs) { w.Acted = w.Acted && w.Decide().State == arming.Armed })
	return true
}

// cleanUp withdraws all requests and removes all files. It reports whether nothing is left.
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
	a.arming.update(func(w *arming.Inputs) {
		if w.File = a.arming.file.State(); w.Decide().State == arming.CleaningUp {
			w.CleanedUp, w.Acted = true, false
		}
	})
	return true
}

// logCleanupFault logs the first of consecutive faults.
func (a *app) logCleanupFault(err error) {
	if err != nil && a.lastFault == "" {
		a.log.Error("Failed to clean up, retrying", "error", err)
	}
	if a.lastFault = ""; err != nil {
		a.lastFault = err.Error()
	}
}

// uninstallTimeout bounds the clean-up between SIGTERM and the end of an agent without
// DaemonSet.
const uninstallTimeout = 15 * time.Second

// cleanUpIfUninstalled cleans up when the agent's DaemonSet is deleted or being deleted. At
// any other end, such as an update, everything stays as it is. It is a best effort: a
// deletion of all objects at once also removes the rights for it.
func (a *app) cleanUpIfUninstalled() {
	ctx, cancel := context.WithTimeout(context.Background(), uninstallTimeout)
	defer cancel()
	if !a.uninstalled(ctx) {
		return
	}
	a.arming.update(func(w *arming.Inputs) { w.Departing = true })
	for now := a.arming.current(); now.Reason != arming.CleanedUp; now = a.arming.current() {
		select {
		case <-now.superseded:
		case <-ctx.Done():
			a.log.Warn("Stopped before the clean-up was complete")
			return
		}
	}
	if h := a.reporter.heartbeat; h != nil { // the lease has to report it
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
	set, err := a.api.Client().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			a.log.Warn("Cannot determine whether the agent is being uninstalled, skipping the clean-up", "error", err)
		}
		return apierrors.IsNotFound(err)
	}
	return set.DeletionTimestamp != nil
}
