package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Recorder is a record of all states since its start. Its methods are safe for concurrent use;
// their results are immutable.
type Recorder struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	nodes   map[string][]*Node
	pods    map[types.UID][]*Pod
	events  []*corev1.Event
	writes  []*Write
	errs    []error
	changed chan struct{} // closed at the next entry
}

// Start starts a recorder with the current state. The audit may be nil. The caller closes the recorder.
// Returns an error if the first list fails.
func Start(ctx context.Context, client kubernetes.Interface, audit *Audit) (*Recorder, error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &Recorder{cancel: cancel, nodes: map[string][]*Node{}, pods: map[types.UID][]*Pod{}, changed: make(chan struct{})}
	core := client.CoreV1().RESTClient()
	for _, what := range []string{"nodes", "pods", "events"} {
		if err := b.follow(ctx, what, cache.NewListWatchFromClient(core, what, metav1.NamespaceAll, fields.Everything())); err != nil {
			return nil, errors.Join(fmt.Errorf("start recording %s: %w", what, err), b.Close())
		}
	}
	if audit != nil {
		b.ended.Go(func() { b.fault(audit.follow(ctx, b.write)) })
	}
	return b, nil
}

// follow records the current state and then every change. A lost watch is resumed after the
// last entry.
func (b *Recorder) follow(ctx context.Context, what string, source *cache.ListWatch) error {
	list, err := source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := meta.EachListItem(list, func(o runtime.Object) error { b.note(o, false); return nil }); err != nil {
		return err
	}
	from, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil {
		return err
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, from, source)
	if err == nil {
		b.ended.Go(func() { b.watch(ctx, what, source, events) })
	}
	return err
}

// Close stops the recording. Returns the errors of all watches, if entries are missing.
func (b *Recorder) Close() error {
	b.cancel()
	b.ended.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.errs...)
}

func (b *Recorder) watch(ctx context.Context, what string, source *cache.ListWatch, from watch.Interface) {
	for e := range from.ResultChan() {
		if e.Type != watch.Error {
			b.note(e.Object, e.Type == watch.Deleted)
			continue
		}
		err := apierrors.FromObject(e.Object)
		// The API server ends a watch after half an hour or more. It sends no bookmarks for events, so that a watch without
		// any for some minutes can not be resumed. A list has them all, as they are kept for an hour.
		if what == "events" && apierrors.IsResourceExpired(err) {
			err = b.follow(ctx, what, source)
		}
		if err != nil && ctx.Err() == nil {
			b.fault(fmt.Errorf("the watch of %s returned an error: %w", what, err))
		}
		return
	}
	if ctx.Err() == nil {
		b.fault(fmt.Errorf("the watch of %s ended", what))
	}
}

func (b *Recorder) note(object runtime.Object, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch o := object.(type) {
	case *corev1.Node:
		b.nodes[o.Name] = append(b.nodes[o.Name], &Node{o, now, gone})
	case *corev1.Pod:
		b.pods[o.UID] = append(b.pods[o.UID], &Pod{o, now, gone})
	case *corev1.Event:
		if !gone {
			b.noteEvent(o)
		}
	}
	b.wake()
}

// noteEvent records an event; a repetition replaces the earlier state of the event.
func (b *Recorder) noteEvent(e *corev1.Event) {
	same := slices.IndexFunc(b.events, func(old *corev1.Event) bool { return old.UID == e.UID })
	if same < 0 {
		b.events = append(b.events, e)
	} else {
		b.events[same] = e
	}
}

func (b *Recorder) write(w *Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = append(b.writes, w)
	b.wake()
}

func (b *Recorder) fault(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
	b.wake()
}

// wake wakes all waiters. The caller must hold mu.
func (b *Recorder) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Until waits for a condition, evaluated at every entry. Returns an error if a watch fails, or
// ctx ends, before.
func (b *Recorder) Until(ctx context.Context, so func() bool) error {
	for {
		b.mu.Lock()
		changed, err := b.changed, errors.Join(b.errs...)
		b.mu.Unlock()
		if err != nil || so() {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Node returns the last state of a node by name, or nil if there is none.
func (b *Recorder) Node(name string) *Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return last(b.nodes[name])
}

// NodeStates returns all states of the nodes of a name, in order.
func (b *Recorder) NodeStates(name string) []*Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.nodes[name])
}

// Pod returns the last state of a pod, or nil if there is none.
func (b *Recorder) Pod(uid types.UID) *Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return last(b.pods[uid])
}

// PodStates returns all states of a pod, in order.
func (b *Recorder) PodStates(uid types.UID) []*Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.pods[uid])
}

// PodUIDs returns the UIDs of all pods, in no order.
func (b *Recorder) PodUIDs() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.pods))
}

func last[T any](states []*T) *T {
	if len(states) == 0 {
		return nil
	}
	return states[len(states)-1]
}

// Events returns the events of an object with that reason, oldest first.
func (b *Recorder) Events(object types.UID, reason string) []*corev1.Event {
	return b.EventsThat(func(e *corev1.Event) bool { return e.InvolvedObject.UID == object && e.Reason == reason })
}

// EventsThat returns the matching events, oldest first.
func (b *Recorder) EventsThat(match func(*corev1.Event) bool) (found []*corev1.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if match(e) {
			found = append(found, e)
		}
	}
	return found
}

// Writes returns the matching requests in the order of their completion.
func (b *Recorder) Writes(matches func(*Write) bool) (found []*Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.writes {
		if matches(w) {
			found = append(found, w)
		}
	}
	return found
}
