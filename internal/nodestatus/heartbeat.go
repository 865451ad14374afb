package nodestatus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// HeartbeatNamespace is where the agents' leases are.
const HeartbeatNamespace = "plimsoll-system"

// Annotations of the agent's lease: what a controller needs to tell a node
// under pressure, whose agent is alive, from one whose agent is dead.
const (
	AnnotationVersion       = prefix + "version"        // of the agent
	AnnotationPod           = prefix + "pod"            // the agent's own, namespace/name; left out where it runs in none
	AnnotationConditions    = prefix + "conditions"     // True ones by name, with commas; empty: none
	AnnotationArmed         = prefix + "armed"          // true or false: whether the agent acts
	AnnotationArmedReason   = prefix + "armed-reason"   // why, or why not; "left": it has taken everything back
	AnnotationFindings      = prefix + "findings"       // codes of the doctor's that are errors, with commas; empty: none
	AnnotationDryRun        = prefix + "dry-run"        // true: the agent is not armed
	AnnotationLastLook      = prefix + "last-look"      // RFC 3339, the node's clock
	AnnotationThresholds    = prefix + "thresholds"     // a digest: equal for nodes with equal thresholds
	AnnotationSoftEvictions = prefix + "soft-evictions" // pods that the controller is asked to evict; left out: none
)

// Vitals are what an agent tells of itself with every heartbeat.
type Vitals struct {
	Version       string
	Pod           string
	Conditions    signals.ConditionSet
	Armed         bool
	ArmedReason   string
	Findings      []string
	Thresholds    string // see [Digest]
	SoftEvictions string
}

func (v *Vitals) annotations(look time.Time) map[string]string {
	all := map[string]string{
		AnnotationVersion:     v.Version,
		AnnotationConditions:  strings.Join(v.Conditions.Names(), ","),
		AnnotationArmed:       strconv.FormatBool(v.Armed),
		AnnotationArmedReason: v.ArmedReason,
		AnnotationFindings:    strings.Join(v.Findings, ","),
		AnnotationDryRun:      strconv.FormatBool(!v.Armed),
		AnnotationLastLook:    look.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		AnnotationThresholds:  v.Thresholds,
	}
	if v.Pod != "" {
		all[AnnotationPod] = v.Pod
	}
	if v.SoftEvictions != "" {
		all[AnnotationSoftEvictions] = v.SoftEvictions
	}
	return all
}

// Digest is a short text that is equal for equal thresholds, in any order.
func Digest(lines []kubeletconfig.Threshold) string {
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Signal.String()+"<"+l.Text)
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, ",")))
	return hex.EncodeToString(sum[:6])
}

// HeartbeatParts are what a heartbeat is made of.
type HeartbeatParts struct {
	Client   kubernetes.Interface
	NodeName string
	// Namespace of the lease; empty is [HeartbeatNamespace].
	Namespace string
	// Node is the Node as an informer knows it, nil while it does not.
	Node func() *corev1.Node
	// Period is the time between two regular looks. An agent whose last look is
	// older than two of them has no heartbeat.
	Period time.Duration
	// Vitals is asked at every renewal, from a goroutine of the heartbeat's own.
	Vitals func() Vitals
	Log    *slog.Logger
}

// A Heartbeat renews the agent's lease, plimsoll-system/NODE.
//
// It needs the rights to get, create and update leases in that namespace.
type Heartbeat struct {
	HeartbeatParts
	begun    time.Time
	lastBeat atomic.Int64 // nanoseconds from begun to the last look; 0: none yet
	count    counts
	kick     chan struct{} // one slot
}

// counts are how often a lease was renewed, and a try failed or was held back.
type counts struct{ renewed, failed, heldBack atomic.Int64 }

// NewHeartbeat prepares a heartbeat; Run renews.
func NewHeartbeat(p HeartbeatParts) *Heartbeat {
	if p.Namespace == "" {
		p.Namespace = HeartbeatNamespace
	}
	return &Heartbeat{HeartbeatParts: p, begun: time.Now(), kick: make(chan struct{}, 1)}
}

// Beat says that the agent looked at the node. It does not wait, and may be
// called by any goroutine.
func (h *Heartbeat) Beat(at time.Time) { h.lastBeat.Store(max(int64(at.Sub(h.begun)), 1)) }

// Kick has the lease renewed now, because what the vitals say has changed. It does
// not wait.
func (h *Heartbeat) Kick() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// errNotYet holds a heartbeat back without a word: at the start that is no
// trouble.
var errNotYet = errors.New("the agent has not looked at the node yet")

// Alive returns nil while the agent looks at its node, and else what is wrong.
func (h *Heartbeat) Alive(now time.Time) error {
	last := h.lastBeat.Load()
	if last == 0 {
		return errNotYet
	}
	if age := now.Sub(h.begun) - time.Duration(last); age > 2*h.Period {
		return fmt.Errorf("the agent hangs: its last look at the node was %s ago, two monitoring periods are %s", age.Round(time.Millisecond), 2*h.Period)
	}
	return nil
}

// Counts are how often the lease was renewed, how often a try failed, and how
// often it was held back because the agent hung.
func (h *Heartbeat) Counts() (renewed, failed, heldBack int64) { return h.count.load() }

func (c *counts) load() (renewed, failed, heldBack int64) {
	return c.renewed.Load(), c.failed.Load(), c.heldBack.Load()
}

// Run renews the lease until ctx ends. It then runs out: a successor on the
// same node goes on with it.
func (h *Heartbeat) Run(ctx context.Context) {
	permit := func(context.Context) error { return h.Alive(time.Now()) }
	beat := &beat{
		renewer: renewer{leases: h.Client.CoordinationV1().Leases(h.Namespace), what: "the agent's heartbeat"},
		kick:    h.kick,
		log:     h.Log, count: &h.count, permit: permit, doubt: permit,
		claim: func() *claim {
			v := h.Vitals()
			look := h.begun.Add(time.Duration(h.lastBeat.Load()))
			return &claim{namespace: h.Namespace, name: h.NodeName, holder: h.NodeName, owner: h.Node(), annotations: v.annotations(look)}
		},
	}
	_ = beat.run(ctx) // no permit of ours is refused for good
}
