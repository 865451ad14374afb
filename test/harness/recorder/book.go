package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// Book is a record of everything since its start. Its methods are safe for concurrent use;
// their results are immutable.
type Book struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	nodes  map[string][]*Node
	pods   map[types.UID][]*Pod
	events []*corev1.Event
	writes []*Write
	errs   []error
	turned chan struct{} // closed at the next entry
}

// Keep starts a book with the current state. The audit may be nil. The caller closes the book.
// Returns an error if the first list fails.
func Keep(ctx context.Context, client kubernetes.Interface, audit *Audit) (*Book, error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &Book{cancel: cancel, nodes: map[string][]*Node{}, pods: map[types.UID][]*Pod{}, turned: make(chan struct{})}
	core := client.CoreV1().RESTClient()
	for _, what := range []string{"nodes", "pods", "events"} {
		if err := b.follow(ctx, what, cache.NewListWatchFromClient(core, what, metav1.NamespaceAll, fields.Everything())); err != nil {
			return nil, errors.Join(fmt.Errorf("begin a book of %s: %w", what, err), b.Close())
		}
	}
	if audit != nil {
		b.ended.Go(func() { b.fault(audit.follow(ctx, b.write)) })
	}
	return b, nil
}

// follow records the current state and then every change. A lost watch is resumed after the
// last entry.
func (b *Book) follow(ctx context.Context, what string, source *cache.ListWatch) error {
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
		b.ended.Go(func() { b.watch(ctx, what, events) })
	}
	return err
}

// Close stops the recording. Returns the errors of all watches, if entries are missing.
func (b *Book) Close() error {
	b.cancel()
	b.ended.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.errs...)
}

func (b *Book) watch(ctx context.Context, what string, from watch.Interface) {
	for e := range from.ResultChan() {
		if e.Type == watch.Error {
			b.fault(fmt.Errorf("the watch of %s says %v", what, e.Object))
			return
		}
		b.note(e.Object, e.Type == watch.Deleted)
	}
	if ctx.Err() == nil {
		b.fault(fmt.Errorf("the watch of %s ended", what))
	}
}

func (b *Book) note(object runtime.Object, gone bool) {
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
			b.tell(o)
		}
	}
	b.turn()
}

// tell records an event; a repetition replaces the earlier state of the event.
func (b *Book) tell(e *corev1.Event) {
	same := slices.IndexFunc(b.events, func(old *corev1.Event) bool { return old.UID == e.UID })
	if same < 0 {
		b.events = append(b.events, e)
	} else {
		b.events[same] = e
	}
}

func (b *Book) write(w *Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes = append(b.writes, w)
	b.turn()
}

func (b *Book) fault(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
	b.turn()
}

// turn wakes all waiters; the caller holds the lock.
func (b *Book) turn() {
	close(b.turned)
	b.turned = make(chan struct{})
}

// Until waits for a condition, evaluated at every entry. Returns an error if a watch fails, or
// ctx ends, before.
func (b *Book) Until(ctx context.Context, so func() bool) error {
	for {
		b.mu.Lock()
		turned, err := b.turned, errors.Join(b.errs...)
		b.mu.Unlock()
		if err != nil || so() {
			return err
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Node returns the last state of a node by name, or nil if there is none.
func (b *Book) Node(name string) *Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return last(b.nodes[name])
}

// NodeStates returns all states of the nodes of a name, in order.
func (b *Book) NodeStates(name string) []*Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.nodes[name])
}

// Pod returns the last state of a pod, or nil if there is none.
func (b *Book) Pod(uid types.UID) *Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return last(b.pods[uid])
}

// PodStates returns all states of a pod, in order.
func (b *Book) PodStates(uid types.UID) []*Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.pods[uid])
}

func last[T any](states []*T) *T {
	if len(states) == 0 {
		return nil
	}
	return states[len(states)-1]
}

// Events returns the events of an object with that reason, oldest first.
func (b *Book) Events(object types.UID, reason string) (found []*corev1.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.InvolvedObject.UID == object && e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}

// Writes returns the matching requests in the order of their completion.
func (b *Book) Writes(matches func(*Write) bool) (found []*Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.writes {
		if matches(w) {
			found = append(found, w)
		}
	}
	return found
}
