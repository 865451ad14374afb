package client

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/internal/kube/slimpods"
)

// PodState is the state of a pod at the API server.
type PodState uint8

// The states of pods. Only Gone and Ended permit garbage collection of a pod's remains; Unknown
// never does.
const (
	Unknown PodState = iota // there is no server, or no response yet
	Active                  // not in a terminal phase, deleted or not
	Ended                   // phase Succeeded or Failed
	Evicted                 // phase Failed with the reason Evicted
	Gone                    // the server has no such pod on this node
)

func (s PodState) String() string {
	return [...]string{"unknown", "active", "ended", "evicted", "gone"}[s]
}

// publishPause is the minimum interval between two published views: it combines the events of a
// burst.
const publishPause = 50 * time.Millisecond

// Pods are the pods of the own node at the API server. Its methods are safe for concurrent use;
// they neither block nor copy.
type Pods struct {
	node    string
	log     *slog.Logger
	choices *agentpods.Choices
	changed func()
	health  reflector.Health
	latest  atomic.Pointer[view]

	mu      sync.Mutex
	entries map[types.UID]*entry // by the UID in the API; the cgroup of a static pod has another one
	refused map[types.UID]bool   // unusable pods that were logged
	budget  budget               // of what entries keep
	short   bool                 // an exhausted budget was logged
	stale   bool                 // the active pods differ from those of latest
	dirty   chan struct{}        // one slot: something differs from latest
}

// view is an immutable state of all pods at one time.
type view struct {
	active      []signals.Pod
	of          map[string]*entry // by the UID in the name of the cgroup
	unexplained []*entry
	synced      bool
}

// WatchPods watches the pods of the connection's node until ctx ends. Before the first response of
// the server, or without a server, the known pods are the active ones. changed is called after each
// change of the active pods, and must not block; it may be nil.
func WatchPods(ctx context.Context, c *Connection, known []signals.Pod, changed func()) *Pods {
	p := &Pods{
		node: c.node, log: c.log, choices: c.choices, changed: changed,
		health:  reflector.Health{What: "pods"},
		entries: map[types.UID]*entry{}, refused: map[types.UID]bool{}, budget: budget{shares: map[types.UID]share{}}, dirty: make(chan struct{}, 1),
	}
	p.latest.Store(&view{active: c.choices.Renew(known)})
	if c.Configured() {
		go p.publishAsNeeded(ctx)
		from := slimpods.From(c.watching, metav1.NamespaceAll)
		run(ctx, c, &p.health, reflector.Kind[*corev1.PodList]{
			From: from, Request: from.Request, Example: from.Example, Into: podStore{p},
			Selector: fields.OneTermEqualSelector("spec.nodeName", c.node),
		})
	}
	return p
}

// Active returns the pods that are not in a terminal phase, in order of namespace and name. The
// caller must not change them.
func (p *Pods) Active() []signals.Pod { return p.latest.Load().active }

// Synced reports whether the first list of the node's pods has been received.
func (p *Pods) Synced() bool { return p.latest.Load().synced }

// State returns the state of the pod with that UID in the name of its cgroup. A static pod is known
// by its mirror pod. It is Gone while the kubelet cannot create one: the runtime knows whether it
// runs.
func (p *Pods) State(uid string) PodState {
	v := p.latest.Load()
	switch e := v.of[uid]; {
	case e != nil:
		return e.state
	case v.synced:
		return Gone
	}
	return Unknown
}

// Get returns the stored part of the pod's object: its identity, generation and times, its phase,
// reason and message, and the conditions that report an eviction. It must not be sent back to the
// server. ok is false for an unknown pod.
func (p *Pods) Get(uid string) (object *corev1.Pod, ok bool) {
	if e := p.latest.Load().of[uid]; e != nil {
		return e.object(), true
	}
	return nil, false
}

// maxImages bounds the result of [Pods.HostImages].
const maxImages = 1000

// HostImages returns the images of the active pods with access to the host: its namespaces, files
// or devices. Each image is listed once.
func (p *Pods) HostImages() []string {
	images := []string{}
	for _, e := range p.latest.Load().of {
		for _, image := range e.images {
			if e.state == Active && len(images) < maxImages && !slices.Contains(images, image) {
				images = append(images, image)
			}
		}
	}
	return images
}

// Unexplained returns the objects, in the form of [Pods.Get], of failed pods that were evicted by
// their conditions and lack a reason or a message.
func (p *Pods) Unexplained() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, e := range p.latest.Load().unexplained {
			if !yield(e.object()) {
				return
			}
		}
	}
}

// Has reports whether the server has a pod with that UID in the API on the node.
func (p *Pods) Has(uid string) bool {
	of := p.latest.Load().of
	if e := of[uid]; e != nil && string(e.uid) == uid {
		return true
	}
	for _, e := range of { // the API UID of a static pod names no cgroup
		if string(e.uid) == uid {
			return true
		}
	}
	return false
}

// Err returns the error of the watch and the time of its beginning; nil while the watch works, or
// without a server.
func (p *Pods) Err() error { return p.health.Err() }

// publishAsNeeded publishes the first change at once, and combines those that follow.
func (p *Pods) publishAsNeeded(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		}
		p.mu.Lock()
		changed := p.publish(p.latest.Load().synced)
		p.mu.Unlock()
		p.notify(changed)
		select {
		case <-ctx.Done():
			return
		case <-time.After(publishPause):
		}
	}
}

func (p *Pods) notify(changed bool) {
	if changed && p.changed != nil {
		p.changed()
	}
}

// publish makes the entries visible. It takes 0.2 ms for 250 pods that changed, and a tenth of that
// if no active one did. The caller holds mu, and calls changed if the result is true.
func (p *Pods) publish(synced bool) (changed bool) {
	before := p.latest.Load()
	if !synced {
		return false // a partial list is no list
	}
	v := &view{active: before.active, of: make(map[string]*entry, len(p.entries)), synced: true}
	for _, e := range p.entries {
		if other := v.of[e.pod.UID]; other == nil || precedes(e, other) {
			v.of[e.pod.UID] = e
		}
	}
	for _, e := range v.of {
		if e.unexplained() {
			v.unexplained = append(v.unexplained, e)
		}
	}
	changed, p.stale = p.stale || !before.synced, false
	if changed {
		v.active = activeOf(v.of)
	}
	p.latest.Store(v)
	return changed
}

// precedes decides which of two pods owns a UID that both claim. A UID of the server precedes that
// of a mirror pod, which its author has chosen. Of mirror pods the newest one counts: it replaced
// the older.
func precedes(a, b *entry) bool {
	if a.mirror != b.mirror {
		return b.mirror
	}
	return cmp.Or(b.created.Compare(a.created.Time), cmp.Compare(a.uid, b.uid)) < 0
}

func activeOf(of map[string]*entry) []signals.Pod {
	entries := make([]*entry, 0, len(of))
	for _, e := range of {
		if e.state == Active {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	active := make([]signals.Pod, len(entries))
	for i, e := range entries {
		active[i] = e.pod
	}
	return active
}

// accept returns the entry, or nil if it is unusable, which is logged once. The caller holds mu.
func (p *Pods) accept(e *entry) *entry {
	if e.fault == nil {
		return e
	}
	if !p.refused[e.uid] {
		p.refused[e.uid] = true
		p.log.Error("Ignored an invalid pod from the API server", "error", e.fault)
	}
	return nil
}

// put stores a new or changed pod. The caller holds mu.
func (p *Pods) put(e *entry) {
	before, after := p.entries[e.uid], p.accept(e)
	if after == nil {
		delete(p.entries, e.uid)
	} else {
		p.entries[e.uid] = after
	}
	p.stale = p.stale || !sameToDecisions(before, after)
}

// sameToDecisions reports whether two entries of a pod lead to the same decisions. Most events
// change neither the requests of a pod nor its running containers.
func sameToDecisions(before, after *entry) bool {
	if before == nil || after == nil {
		return before == after
	}
	return !after.unexplained() && before.state == after.state && reflect.DeepEqual(before.pod, after.pod)
}
