package rollout

import (
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// A roll is what agents say of themselves in their leases, by node. It is a
// cache.ReflectorStore, and keeps of each lease what is asked of it.
type roll struct {
	mu      sync.Mutex
	agents  map[string]agentLease
	listed  bool // once, completely
	updates map[string]time.Time
}

// An agentLease is what the lease of an agent says.
type agentLease struct {
	armed   string // true or false; empty: it is of a version that can not be disarmed
	reason  string
	renewed time.Time
}

func newRoll() *roll {
	return &roll{agents: map[string]agentLease{}, updates: map[string]time.Time{}}
}

// Add implements cache.ReflectorStore.
func (r *roll) Add(object any) error { return r.Update(object) }

// Update implements cache.ReflectorStore.
func (r *roll) Update(object any) error {
	l, ok := object.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("take in a lease: it is a %T", object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(l)
	r.updates[l.Name] = time.Now()
	return nil
}

// Delete implements cache.ReflectorStore.
func (r *roll) Delete(object any) error {
	l, ok := object.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("take in a lease that was deleted: it is a %T", object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, l.Name)
	return nil
}

// Resync implements cache.ReflectorStore: nothing here forgets.
func (r *roll) Resync() error { return nil }

// Replace implements cache.ReflectorStore.
func (r *roll) Replace(list []any, _ string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents = make(map[string]agentLease, len(list))
	for _, object := range list {
		l, ok := object.(*coordinationv1.Lease)
		if !ok {
			return fmt.Errorf("take in a list of leases: it holds a %T", object)
		}
		r.enter(l)
	}
	r.listed = true
	return nil
}

// enter takes over the lease of an agent; other leases are none of ours.
func (r *roll) enter(l *coordinationv1.Lease) {
	if l.Annotations[nodestatus.AnnotationVersion] == "" {
		return
	}
	a := agentLease{armed: l.Annotations[nodestatus.AnnotationArmed], reason: l.Annotations[nodestatus.AnnotationArmedReason]}
	if l.Spec.RenewTime != nil {
		a.renewed = l.Spec.RenewTime.Time
	}
	r.agents[l.Name] = a
}

// names are the nodes whose agents are known; false: not all of them yet.
func (r *roll) names() (nodes []string, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.agents {
		nodes = append(nodes, name)
	}
	return nodes, r.listed
}

// of is what the agent of a node says, and when it said so while it was listened
// to; zero if it has not.
func (r *roll) of(node string) (a agentLease, known bool, heard time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, known = r.agents[node]
	return a, known, r.updates[node]
}
