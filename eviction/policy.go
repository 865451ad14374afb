package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// EarlyEviction is what early checks may do.
type EarlyEviction uint8

// The choices for early checks.
const (
	// Imminent: they act only on memory that would be exhausted before a later kill could help.
	Imminent EarlyEviction = iota
	// Immediate: they act as periodic checks, like the kubelet with its memcg notification.
	Immediate
	// Never: they do nothing.
	Never
)

var earlyEvictionNames = [...]string{"imminent", "immediate", "never"}

func (e EarlyEviction) String() string { return earlyEvictionNames[e] }

// ParseEarlyEviction returns the choice of that name. It returns an error for an unknown name.
func ParseEarlyEviction(name string) (EarlyEviction, error) {
	for i, n := range earlyEvictionNames {
		if n == name {
			return EarlyEviction(i), nil
		}
	}
	return 0, fmt.Errorf("unknown choice %q for early evictions: use imminent, immediate or never", name)
}

// Defaults of the policy, for unset configuration.
const (
	DefaultTransitionPeriod     = 5 * time.Minute
	DefaultEarlyEvictionHorizon = 500 * time.Millisecond
)

// Policy is the compiled configuration of the decisions, made by [NewPolicy]. It is immutable.
type Policy struct {
	// Thresholds are in acting order: by signal, hard before soft.
	Thresholds []Threshold
	Configured signals.Set

	Layout               signals.Layout
	TransitionPeriod     time.Duration // minimum time that a condition stays True
	MaxPodGracePeriod    int64         // seconds, for soft evictions; negative: that of the pod
	StorageLimits        bool          // evict pods above their local-storage limits
	Choice               Choice
	EarlyEviction        EarlyEviction
	EarlyEvictionHorizon time.Duration // a shorter time to exhaustion is imminent

	hardMemory thresholdSet
	all        thresholdSet
}

// Settings are the source of a [Policy].
type Settings struct {
	Thresholds           []Threshold
	BindAllocatable      bool // hard memory thresholds also bind allocatableMemory.available
	Layout               signals.Layout
	TransitionPeriod     time.Duration
	MaxPodGracePeriod    int64
	StorageLimits        bool
	Choice               Choice
	EarlyEviction        EarlyEviction
	EarlyEvictionHorizon time.Duration
}

// NewPolicy compiles settings. Hard memory thresholds are copied to allocatable memory where that
// is enforced. Thresholds of containerfs follow those of nodefs or imagefs; configured ones are
// never used. NewPolicy returns an error if there are more than 64 thresholds.
func NewPolicy(s Settings) (*Policy, error) {
	p := &Policy{
		Layout:               s.Layout,
		TransitionPeriod:     s.TransitionPeriod,
		MaxPodGracePeriod:    s.MaxPodGracePeriod,
		StorageLimits:        s.StorageLimits,
		Choice:               s.Choice,
		EarlyEviction:        s.EarlyEviction,
		EarlyEvictionHorizon: s.EarlyEvictionHorizon,
	}
	for _, t := range s.Thresholds {
		if _, derived := t.Signal.ContainerfsFollows(s.Layout); derived {
			continue
		}
		p.add(t)
	}
	if s.BindAllocatable {
		p.bindAllocatable()
	}
	p.deriveContainerfs()
	if len(p.Thresholds) > maxThresholds {
		return nil, fmt.Errorf("%d eviction thresholds are configured: at most %d are supported", len(p.Thresholds), maxThresholds)
	}
	slices.SortStableFunc(p.Thresholds, actingOrder)
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		p.Configured.Add(t.Signal)
		p.all.add(i)
		if t.Hard() && t.Signal.OfMemory() {
			p.hardMemory.add(i)
		}
	}
	return p, nil
}

func (p *Policy) add(t Threshold) {
	if !slices.Contains(p.Thresholds, t) {
		p.Thresholds = append(p.Thresholds, t)
	}
}

// bindAllocatable copies hard memory thresholds to allocatable memory. The copies come after the
// thresholds configured for it.
func (p *Policy) bindAllocatable() {
	for _, t := range slices.Clone(p.Thresholds) {
		if t.Hard() && t.Signal == signals.MemoryAvailable {
			t.Signal = signals.AllocatableMemoryAvailable
			p.add(t)
		}
	}
}

func (p *Policy) deriveContainerfs() {
	for _, derived := range []signals.Signal{signals.ContainerfsAvailable, signals.ContainerfsInodesFree} {
		followed, _ := derived.ContainerfsFollows(p.Layout)
		for _, t := range slices.Clone(p.Thresholds) {
			if t.Signal == followed {
				t.Signal = derived
				p.add(t)
			}
		}
	}
}

// HighestThreshold returns the amount below which the signal first meets a threshold of a kind,
// hard or soft, at a capacity. It returns false if there is none.
func (p *Policy) HighestThreshold(s signals.Signal, hard bool, capacity signals.Amount) (at signals.Amount, configured bool) {
	for i := range p.Thresholds {
		if t := &p.Thresholds[i]; t.Signal == s && t.Hard() == hard {
			at, configured = max(at, t.Value.Of(capacity).Value), true
		}
	}
	return at, configured
}

func actingOrder(a, b Threshold) int {
	if c := cmp.Compare(a.Signal, b.Signal); c != 0 {
		return c
	}
	switch {
	case a.Hard() == b.Hard():
		return 0
	case a.Hard():
		return -1
	}
	return 1
}
