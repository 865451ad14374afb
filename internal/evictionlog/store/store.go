package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

const (
	// firstDelay is the time from an eviction to its record.
	firstDelay = time.Second
	// quiet is the time without a write after which the next one is the first of a series again.
	quiet = 10 * time.Minute
	// maxRecent is the maximum number of evictions that are still open to changes.
	maxRecent = 64
	// lastWrite bounds the write when the agent ends.
	lastWrite = 3 * time.Second
)

// pace is the minimum time between two writes: the end of an eviction, and further ones, are written together. It
// grows with the writes of a series, since the server stores each version of the record for minutes.
var pace = backoff.Bounds{Min: 10 * time.Second, Max: 2 * time.Minute}

// retryBackoff is the delay after a failed write.
var retryBackoff = backoff.Bounds{Min: 2 * time.Second, Max: 30 * time.Second}

// Parts configure a [Store].
type Parts struct {
	Client    api.Interface
	Namespace string
	NodeName  string
	// Node, if set, returns the Node from an informer, or nil while the informer is not synced. It owns the ConfigMap,
	// which ends with it. Otherwise the ConfigMap has no owner: see [Expiry].
	Node func() *corev1.Node
	// Unwritten, if set, receives the text of the records that the API server does not have yet, and their
	// number, after each change. It must not block.
	Unwritten func(text string, records int)
	Log       *slog.Logger
}

// Store writes the record of a node's evictions. It requires the rights to get, create and update ConfigMaps in
// its namespace.
type Store struct {
	Parts
	changed chan struct{} // one slot

	mu     sync.Mutex
	recent []recent

	// Of the goroutine that writes.
	unwritten   evictionlog.Log
	written     time.Time // time of the last write
	series      int       // writes, each within quiet of the one before
	due         time.Time // of the next one; zero: nothing is to be written
	fails       int       // successive
	lastTrouble string    // kind of trouble that was logged last; empty: none
}

// recent is an eviction that may change: its end is not known yet.
type recent struct {
	record  decisionlog.Record
	changed bool // and not collected by the goroutine yet
}

// New returns a store; Run starts it.
func New(p Parts) *Store {
	if p.Unwritten == nil {
		p.Unwritten = func(string, int) {}
	}
	return &Store{Parts: p, changed: make(chan struct{}, 1)}
}

// Add records an eviction. It does not block.
func (s *Store) Add(r *decisionlog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.recent) >= maxRecent { // the oldest that needs no write; without one the goroutine is behind
		i := slices.IndexFunc(s.recent, func(e recent) bool { return !e.changed })
		if i < 0 {
			break
		}
		s.recent = slices.Delete(s.recent, i, i+1)
	}
	s.recent = append(s.recent, recent{*r, true})
	s.wake()
}

// Change changes the last record of a pod for which change returns true. It has no effect for a pod without a
// recent eviction. It does not block, and neither must change.
func (s *Store) Change(uid string, change func(*decisionlog.Record) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range slices.Backward(s.recent) {
		if e := &s.recent[i]; e.record.UID == uid && change(&e.record) {
			e.changed = true
			s.wake()
			return
		}
	}
}

func (s *Store) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run writes records until ctx ends, first those of an earlier run.
func (s *Store) Run(ctx context.Context, earlier string) {
	s.inherit(earlier)
	s.collect()
	for {
		var due <-chan time.Time
		timer := time.NewTimer(time.Until(s.due))
		if !s.due.IsZero() {
			due = timer.C
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			s.finish(ctx)
			return
		case <-s.changed:
			s.collect()
		case <-due:
			s.write(ctx)
		}
		timer.Stop()
	}
}

// inherit adds the records that an earlier run has not written. None is too old: they are of the same boot.
func (s *Store) inherit(earlier string) {
	l := evictionlog.Parse(earlier)
	if _, err := l.Trim(time.Now()); err != nil {
		s.Log.Error("Dropped records of evictions of an earlier run", "error", err)
		return
	}
	s.unwritten.Add(l)
}

// collect adds the changed records to those that are not written yet, and stores these in the state file.
func (s *Store) collect() {
	s.mu.Lock()
	var changed []decisionlog.Record
	for i := range s.recent {
		if e := &s.recent[i]; e.changed {
			changed = append(changed, e.record)
			e.changed = false
		}
	}
	s.mu.Unlock()
	for i := range changed {
		if err := s.unwritten.Put(&changed[i]); err != nil {
			s.Log.Error("Failed to record an eviction", "error", err)
		}
	}
	now := time.Now()
	if dropped, _ := s.unwritten.Trim(now); dropped > 0 { // inherit has no error, and other lines can be read
		s.Log.Error("Dropped records of evictions that could not be written", "records", dropped)
	}
	s.Unwritten(s.unwritten.String(), s.unwritten.Len())
	if s.due.IsZero() && s.unwritten.Len() > 0 {
		s.due = now.Add(max(firstDelay, s.written.Add(pace.After(s.series)).Sub(now)))
	}
}

// finish writes once more before the agent ends, unless writes fail already: the next agent writes the rest.
func (s *Store) finish(ctx context.Context) {
	s.collect()
	if s.unwritten.Len() == 0 || s.fails > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	s.write(ctx)
}

// write writes the records once, and counts the failure.
func (s *Store) write(ctx context.Context) {
	err := s.put(ctx, &s.unwritten)
	if ctx.Err() != nil && err != nil {
		return // the next agent writes
	}
	s.report(err)
	now := time.Now()
	if err != nil {
		s.fails++
		s.due = now.Add(retryBackoff.Jittered(s.fails))
		return
	}
	if now.Sub(s.written) > quiet {
		s.series = 0
	}
	s.series++
	s.written, s.fails, s.due, s.unwritten = now, 0, time.Time{}, evictionlog.Log{}
	s.Unwritten("", 0)
}

// report logs the first failure of a series, each other reason of the API server, and the recovery.
func (s *Store) report(err error) {
	trouble := ""
	if err != nil {
		trouble = "failing: " + string(apierrors.ReasonForError(err))
	}
	switch {
	case trouble == s.lastTrouble:
	case err == nil:
		s.Log.Info("Resumed recording evictions in the cluster", "configMap", s.Namespace+"/"+s.NodeName)
	default:
		s.Log.Warn("Failed to record evictions in the cluster, retrying", "error", err)
	}
	s.lastTrouble = trouble
}

// attempt names the write in messages.
func (s *Store) attempt() string {
	return fmt.Sprintf("record evictions in the ConfigMap %s/%s", s.Namespace, s.NodeName)
}
