package rollout

import (
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/heartbeat"
)

// leases are the leases of agents, by node. They implement cache.ReflectorStore, and store only the
// fields of [agentLease].
type leases struct {
	mu      sync.Mutex
	agents  map[string]agentLease
	listed  bool // the first list is complete
	updated map[string]time.Time
}

// maxReason bounds the reason of an agent in bytes: any writer of a lease can write any text.
const maxReason = 512

// agentLease is the content of an agent's lease.
type agentLease struct {
	armed   string // true or false; empty: a version that cannot be disarmed
	reason  string
	renewed time.Time
}

func newLeases() *leases {
	return &leases{agents: map[string]agentLease{}, updated: map[string]time.Time{}}
}

// Add implements cache.ReflectorStore.
func (s *leases) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *leases) Update(object any) error {
	l, ok := object.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("take in a lease: it is a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(l)
	s.updated[l.Name] = time.Now()
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *leases) Delete(object any) error {
	l, ok := object.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("take in a lease that was deleted: it is a %T", object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.agents, l.Name)
	return nil
}

// Resync implements cache.ReflectorStore. It is a no-op.
func (s *leases) Resync() error { return nil }

// Replace implements cache.ReflectorStore.
func (s *leases) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents = make(map[string]agentLease, len(list))
	for _, object := range list {
		l, ok := object.(*coordinationv1.Lease)
		if !ok {
			return fmt.Errorf("store a list of leases: unexpected %T", object)
		}
		s.store(l)
	}
	s.listed = true
	return nil
}

// store adds the lease of an agent, and ignores other leases.
func (s *leases) store(l *coordinationv1.Lease) {
	if l.Annotations[heartbeat.AnnotationVersion] == "" {
		return
	}
	a := agentLease{armed: l.Annotations[heartbeat.AnnotationArmed], reason: signals.PrintableText(l.Annotations[heartbeat.AnnotationArmedReason], maxReason)}
	if l.Spec.RenewTime != nil {
		a.renewed = l.Spec.RenewTime.Time
	}
	s.agents[l.Name] = a
}

// nodes returns the nodes with a lease, and whether these are all.
func (s *leases) nodes() (nodes []string, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.agents {
		nodes = append(nodes, name)
	}
	return nodes, s.listed
}

// agent returns the lease of a node's agent, and the time of its update during the watch; zero
// without an update.
func (s *leases) agent(node string) (a agentLease, known bool, updated time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known = s.agents[node]
	return a, known, s.updated[node]
}
