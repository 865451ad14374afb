package app

import (
	"sync"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kill"
)

// mostEvicted bounds what is remembered of evicted pods.
const maxEvicted = 1000

// evicted are the pods that were evicted here, by their UIDs: they are listed until
// the API server's word of it has come back, which may take longer than the time to
// the next look. The zero value has none.
type evictedPods struct {
	mu      sync.Mutex // a soft eviction ends beside the loop
	targets map[string]kill.Target
}

func (e *evictedPods) add(t kill.Target) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.targets == nil || len(e.targets) >= maxEvicted {
		e.targets = map[string]kill.Target{}
	}
	e.targets[t.UID] = t
}

func (e *evictedPods) target(uid string) (t kill.Target, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, found = e.targets[uid]
	return t, found
}

// over reports whether a pod was evicted, and nothing of it runs since.
func (n *node) hasEnded(pod *signals.Pod) bool {
	t, found := n.evicted.target(pod.UID)
	return found && n.killer.Ended(t)
}
