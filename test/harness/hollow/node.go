package hollow

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is a node without a machine. Its methods are safe for concurrent use.
type Node struct {
	Name string
	UID  types.UID
	farm *Farm

	// speaking is locked for reading during a request of the node. The write lock excludes
	// later requests of a silenced sender.
	speaking sync.RWMutex
	alive    [senders]bool

	renewing sync.Mutex // serializes renewals
	mu       sync.Mutex
	beats    [senders][]Beat
	ready    corev1.ConditionStatus // of the node
	reported corev1.ConditionStatus // in the API server
	turned   metav1.Time            // last change of ready
	skew     time.Duration
	leases   [senders]*coordinationv1.Lease // as last written
}

// sender is a sender of requests for a node.
type sender int

const (
	kubelet sender = iota
	agent
	senders
)

// Beat is a heartbeat that reached the API server between the two times.
type Beat struct {
	Sent, Done time.Time
	Lease      bool // it renewed the lease; otherwise it wrote the status
}

// live sends heartbeats until the farm ends.
func (n *Node) live() {
	ticks := time.NewTicker(n.farm.renew)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C: // the next tick retries errors
			_ = n.as(kubelet, n.beat)
			_ = n.as(kubelet, n.correct)
			_ = n.as(agent, n.assist)
		case <-n.farm.ctx.Done():
			return
		}
	}
}

// as executes do if the sender is alive.
func (n *Node) as(from sender, do func(context.Context) error) error {
	n.speaking.RLock()
	defer n.speaking.RUnlock()
	if !n.alive[from] {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.farm.ctx, patience)
	defer cancel()
	return do(ctx)
}

func (n *Node) set(from sender, alive bool) {
	n.speaking.Lock()
	defer n.speaking.Unlock()
	n.alive[from] = alive
}

// Stop silences the node and its agent at once and returns its last heartbeat.
func (n *Node) Stop() Beat {
	n.set(agent, false)
	return n.StopKubelet()
}

// StopKubelet is Stop without the node's agent, which continues.
func (n *Node) StopKubelet() Beat {
	n.set(kubelet, false)
	beats := n.Beats()
	return beats[len(beats)-1]
}

// Resume revives a silent node: it reports Ready and ends the pods that were deleted in the
// meantime; the other pods continue to run. Returns the error of the API server if a request
// fails.
func (n *Node) Resume(ctx context.Context) error {
	n.set(kubelet, true)
	err := errors.Join(n.Report(ctx, corev1.ConditionTrue), n.beat(ctx))
	for _, p := range n.pods() {
		if p.DeletionTimestamp != nil {
			err = errors.Join(err, n.farm.remove(ctx, p))
		} else {
			err = errors.Join(err, n.runs(ctx, p))
		}
	}
	return err
}

// Living reports whether the kubelet sends heartbeats.
func (n *Node) Living() bool {
	n.speaking.RLock()
	defer n.speaking.RUnlock()
	return n.alive[kubelet]
}

// Assist starts or stops the node's agent.
func (n *Node) Assist(alive bool) { n.set(agent, alive) }

// Skew sets the error of the node's clock.
func (n *Node) Skew(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.skew = by
}

// clock returns the node's own time.
func (n *Node) clock() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.skew)
}

// Beats returns all heartbeats of the kubelet, oldest first.
func (n *Node) Beats() []Beat { return n.beatsOf(kubelet) }

// AgentBeats returns all heartbeats of the node's agent, oldest first.
func (n *Node) AgentBeats() []Beat { return n.beatsOf(agent) }

func (n *Node) beatsOf(from sender) []Beat {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.beats[from])
}

// record records a heartbeat sent at a time and received by now.
func (n *Node) record(from sender, sent time.Time, lease bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.beats[from] = append(n.beats[from], Beat{Sent: sent, Done: time.Now(), Lease: lease})
}
