package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

const (
	// maxGone is the number of nodes that are gone of which records are preserved: up to 32 MB.
	maxGone = 1000
	// expiryPeriod is the time between two searches, and expiryDelay that before the first one, after a failed one,
	// and without leadership.
	expiryPeriod = 6 * time.Hour
	expiryDelay  = 5 * time.Minute
	// deletePace is the minimum time between two deletions: nothing waits for them.
	deletePace = 100 * time.Millisecond
	// maxFailures is the number of records that may fail in one search. Those that a policy of others protects do not
	// preserve all later ones.
	maxFailures = 10
	// recordsPerPage bounds a page to 20 MiB, whatever others wrote: the memory of the controller is limited.
	recordsPerPage = 20
	maxRecordPages = 2500
)

// Expiry deletes the records of nodes that are gone, once they are too old or too many. It requires the rights to list
// and delete ConfigMaps in its namespace, and to get Nodes.
type Expiry struct {
	Client    api.Interface
	Namespace string
	// Leads reports whether this process is the one that deletes.
	Leads func() bool
	// Nodes returns the names of all nodes. Each other one is looked up before its record is deleted.
	Nodes func(context.Context) (map[string]bool, error)
	Log   *slog.Logger
}

// leftover is the record of a node that is gone.
type leftover struct {
	node    string
	uid     types.UID
	version string
	written time.Time // by the clock of the API server
}

// Run deletes records until ctx ends.
func (x *Expiry) Run(ctx context.Context) {
	failing := false
	for wait := expiryDelay; x.pause(ctx, wait); {
		wait = expiryDelay
		if !x.Leads() {
			continue
		}
		deleted, err := x.sweep(ctx, time.Now())
		if deleted > 0 {
			x.Log.Info("Deleted records of evictions of nodes that are gone", "namespace", x.Namespace, "records", deleted)
		}
		switch {
		case err == nil:
			wait = expiryPeriod
		case ctx.Err() == nil && !failing:
			x.Log.Warn("Failed to delete records of evictions of nodes that are gone, retrying", "error", err)
		}
		failing = err != nil
	}
}

// pause waits, and reports whether ctx goes on.
func (x *Expiry) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sweep deletes the records of nodes that are gone and are older than MaxAge, and the oldest beyond maxGone. Those of
// the future, which a wrong clock or a stolen token dated, count as the oldest there: they would displace all others.
// Returns an error if that is not known of all of them, or one cannot be deleted.
func (x *Expiry) sweep(ctx context.Context, now time.Time) (deleted int, err error) {
	gone, last, err := x.list(ctx)
	if err != nil {
		return 0, x.explain(err)
	}
	future := now.Add(evictionlog.MaxAhead)
	if last.Before(now) { // the clock of this machine may be ahead
		now = last
	}
	rank := func(r *leftover) time.Time {
		if r.written.After(future) {
			return time.Time{}
		}
		return r.written
	}
	slices.SortFunc(gone, func(a, b leftover) int { return rank(&a).Compare(rank(&b)) })
	surplus, failures := len(gone)-maxGone, 0
	for i := range gone {
		if i >= surplus && now.Sub(gone[i].written) <= evictionlog.MaxAge {
			continue
		}
		if failures >= maxFailures || !x.Leads() {
			break
		}
		switch is, failed := x.remove(ctx, &gone[i]); {
		case failed != nil:
			if failures++; err == nil {
				err = failed
			}
		case is:
			deleted++
		}
		if !x.pause(ctx, deletePace) {
			return deleted, ctx.Err()
		}
	}
	return deleted, x.explain(err)
}

// list returns the records of unknown nodes, and the time of the last write of any record.
func (x *Expiry) list(ctx context.Context) (gone []leftover, last time.Time, err error) {
	known, err := x.Nodes(ctx)
	if err != nil {
		return nil, last, err
	}
	options := metav1.ListOptions{Limit: recordsPerPage}
	for range maxRecordPages { // the rest follows after deletions
		ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
		list, err := x.Client.ConfigMaps(x.Namespace).List(ctx, options)
		cancel()
		if err != nil {
			return nil, last, err
		}
		for i := range list.Items {
			m := &list.Items[i]
			if _, is := m.Data[Key]; !is || m.DeletionTimestamp != nil { // a finalizer of others holds it
				continue
			}
			written := writtenAt(m)
			if written.After(last) {
				last = written
			}
			if !known[m.Name] {
				gone = append(gone, leftover{m.Name, m.UID, m.ResourceVersion, written})
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	return gone, last, nil
}

// remove deletes a record as it was listed, if its node does not exist. It reports whether it has.
func (x *Expiry) remove(ctx context.Context, r *leftover) (deleted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
	defer cancel()
	switch _, err := x.Client.Nodes().Get(ctx, r.node, metav1.GetOptions{}); {
	case err == nil:
		return false, nil
	case !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err): // of a proxy in between
		return false, err
	}
	err = x.Client.ConfigMaps(x.Namespace).Delete(ctx, r.node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.uid, ResourceVersion: &r.version}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// explain adds the attempt, and the remedy, unless err is nil.
func (x *Expiry) explain(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("delete the records of evictions of nodes that are gone in the namespace %s: %w", x.Namespace, err)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: grant the controller's service account the right to list and delete configmaps there, and to get nodes: apply deploy/rbac/controller.yaml", err)
	}
	return err
}
