package heartbeat

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

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// Namespace is the namespace of the agents' leases.
const Namespace = "plimsoll-system"

// Annotations of the agent's lease. A controller uses them to distinguish a node under pressure
// with a live agent from one with a dead agent.
const (
	AnnotationVersion     = api.Prefix + "version"      // of the agent
	AnnotationPod         = api.Prefix + "pod"          // namespace/name of the agent's own pod; absent outside of pods
	AnnotationConditions  = api.Prefix + "conditions"   // names of the True conditions, comma separated; empty: none
	AnnotationArmed       = api.Prefix + "armed"        // true or false: whether the agent carries out its decisions
	AnnotationArmedReason = api.Prefix + "armed-reason" // the reason of AnnotationArmed; "cleaned-up": everything was withdrawn
	AnnotationFindings    = api.Prefix + "findings"     // the doctor's error codes, comma separated; empty: none
	AnnotationDryRun      = api.Prefix + "dry-run"      // true: the agent is not armed
	AnnotationLastCheck   = api.Prefix + "last-check"   // time of the last check by the node's clock, RFC 3339
	AnnotationThresholds  = api.Prefix + "thresholds"   // a digest: equal for nodes with equal thresholds
	AnnotationSignals     = api.Prefix + "signals"      // observed signals with their thresholds, see package vitals
	// AnnotationLastEviction is the last eviction on the node, see package vitals; absent before the
	// first one. It survives a restart of the agent.
	AnnotationLastEviction = api.Prefix + "last-eviction"
)

// Vitals is the state that an agent reports with every heartbeat.
type Vitals struct {
	Version     string
	Pod         string
	Conditions  signals.ConditionSet
	Armed       bool
	ArmedReason string
	Findings    []string
	Thresholds  string // see [Digest]
	Readings    []vitals.Reading
	// LastEviction is that of this run of the agent; zero: none yet.
	LastEviction vitals.Eviction
}

func (v *Vitals) annotations(checked time.Time) map[string]string {
	all := map[string]string{
		AnnotationVersion:     v.Version,
		AnnotationConditions:  strings.Join(v.Conditions.Names(), ","),
		AnnotationArmed:       strconv.FormatBool(v.Armed),
		AnnotationArmedReason: v.ArmedReason,
		AnnotationFindings:    strings.Join(v.Findings, ","),
		AnnotationDryRun:      strconv.FormatBool(!v.Armed),
		AnnotationLastCheck:   checked.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		AnnotationThresholds:  v.Thresholds,
	}
	for key, text := range map[string]string{
		AnnotationPod: v.Pod, AnnotationSignals: vitals.FormatReadings(v.Readings), AnnotationLastEviction: v.LastEviction.String(),
	} {
		if text != "" {
			all[key] = text
		}
	}
	return all
}

// Digest returns a short text, equal for equal thresholds in any order.
func Digest(lines []kubeletconfig.Threshold) string {
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Signal.String()+"<"+l.Text)
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, ",")))
	return hex.EncodeToString(sum[:6])
}

// Parts configures a Heartbeat.
type Parts struct {
	Client   api.Interface
	NodeName string
	// Namespace of the lease; empty: [Namespace].
	Namespace string
	// Node returns the Node from an informer, or nil while the informer is not synced.
	Node func() *corev1.Node
	// Period is the interval between periodic checks. Without a check for two periods there is no
	// heartbeat.
	Period time.Duration
	// Vitals is called at every renewal, in a goroutine of the heartbeat.
	Vitals func() Vitals
	Log    *slog.Logger
}

// Heartbeat renews the agent's lease, plimsoll-system/NODE.
//
// It requires the rights to get, create and update leases in that namespace.
type Heartbeat struct {
	Parts
	begun    time.Time
	lastBeat atomic.Int64 // nanoseconds from begun to the last check; 0: none yet
	count    counts
	kick     chan struct{} // one slot
}

// counts are the numbers of renewals, failed attempts and delayed renewals of a lease.
type counts struct{ renewed, failed, delayed atomic.Int64 }

// New returns a heartbeat; Run starts it.
func New(p Parts) *Heartbeat {
	if p.Namespace == "" {
		p.Namespace = Namespace
	}
	return &Heartbeat{Parts: p, begun: time.Now(), kick: make(chan struct{}, 1)}
}

// Beat records the time of a check of the node. It does not block and is safe for concurrent use.
func (h *Heartbeat) Beat(at time.Time) { h.lastBeat.Store(max(int64(at.Sub(h.begun)), 1)) }

// Kick renews the lease without delay, after a change of the vitals. It does not block.
func (h *Heartbeat) Kick() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// errNotYet delays a heartbeat without a log message: at the start that is normal.
var errNotYet = errors.New("the agent has not looked at the node yet")

// Alive returns nil while the agent checks its node, otherwise an error with the age of the last
// check.
func (h *Heartbeat) Alive(now time.Time) error {
	last := h.lastBeat.Load()
	if last == 0 {
		return errNotYet
	}
	if age := now.Sub(h.begun) - time.Duration(last); age > 2*h.Period {
		return fmt.Errorf("the agent hangs: its last check of the node was %s ago, two monitoring periods are %s", age.Round(time.Millisecond), 2*h.Period)
	}
	return nil
}

// Counts returns the number of renewals, of failed attempts, and of renewals that were delayed
// because the agent hung.
func (h *Heartbeat) Counts() (renewed, failed, delayed int64) { return h.count.load() }

func (c *counts) load() (renewed, failed, delayed int64) {
	return c.renewed.Load(), c.failed.Load(), c.delayed.Load()
}

// Run renews the lease until ctx ends. The lease then expires, unless a successor on the same node
// renews it.
func (h *Heartbeat) Run(ctx context.Context) {
	permit := func(context.Context) error { return h.Alive(time.Now()) }
	beat := &beat{
		renewer: renewer{leases: h.Client.Leases(h.Namespace), what: "the agent's heartbeat"},
		kick:    h.kick,
		log:     h.Log, count: &h.count, permit: permit, recheck: permit,
		claim: func() *claim {
			v := h.Vitals()
			checked := h.begun.Add(time.Duration(h.lastBeat.Load()))
			return &claim{namespace: h.Namespace, name: h.NodeName, holder: h.NodeName, owner: h.Node(), annotations: v.annotations(checked)}
		},
	}
	_ = beat.run(ctx) // permit never returns ErrKubelet here
}
