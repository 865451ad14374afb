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

// A Node is one without a machine. Its methods may be called from any goroutine.
type Node struct {
	Name string
	UID  types.UID
	farm *Farm

	// speaking is held while the node speaks: who holds it to silence somebody
	// knows that nothing comes after.
	speaking sync.RWMutex
	lives    [voices]bool

	renewing sync.Mutex // one renewal after the other
	mu       sync.Mutex
	beats    []Beat
	ready    corev1.ConditionStatus // as the node has it
	told     corev1.ConditionStatus // as the API server has it
	turned   metav1.Time            // when ready became what it is
	skew     time.Duration
	leases   [voices]*coordinationv1.Lease // as last written
}

// A voice is who speaks for a node.
type voice int

const (
	kubelet voice = iota
	agent
	voices
)

// A Beat is a sign of life that reached the API server at some moment between
// the two.
type Beat struct{ Sent, Done time.Time }

// live renews until the farm ends.
func (n *Node) live() {
	ticks := time.NewTicker(n.farm.renew)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C: // what fails is done once more soon
			_ = n.as(kubelet, n.beat)
			_ = n.as(kubelet, n.correct)
			_ = n.as(agent, n.assist)
		case <-n.farm.ctx.Done():
			return
		}
	}
}

// as does something in the name of one who lives.
func (n *Node) as(who voice, do func(context.Context) error) error {
	n.speaking.RLock()
	defer n.speaking.RUnlock()
	if !n.lives[who] {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.farm.ctx, patience)
	defer cancel()
	return do(ctx)
}

func (n *Node) set(who voice, lives bool) {
	n.speaking.Lock()
	defer n.speaking.Unlock()
	n.lives[who] = lives
}

// Stop has the node fall silent at once, its agent too, and gives its last sign
// of life.
func (n *Node) Stop() Beat {
	n.set(agent, false)
	return n.StopKubelet()
}

// StopKubelet is Stop for a node whose agent lives on, if it has one.
func (n *Node) StopKubelet() Beat {
	n.set(kubelet, false)
	beats := n.Beats()
	return beats[len(beats)-1]
}

// Resume brings a silent node back: it reports Ready, and ends the pods that
// were deleted meanwhile; the others run on.
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

// Living reports whether the kubelet speaks.
func (n *Node) Living() bool {
	n.speaking.RLock()
	defer n.speaking.RUnlock()
	return n.lives[kubelet]
}

// Assist says whether the node's agent lives.
func (n *Node) Assist(lives bool) { n.set(agent, lives) }

// Skew sets by how much the node's clock is wrong.
func (n *Node) Skew(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.skew = by
}

// clock is the node's own.
func (n *Node) clock() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.skew)
}

// Beats are all signs of life of the kubelet, oldest first.
func (n *Node) Beats() []Beat {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.beats)
}

// sent notes a sign of life.
func (n *Node) sent(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.beats = append(n.beats, Beat{at, time.Now()})
}
