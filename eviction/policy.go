package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// EarlyEviction says what looks between two regular ones may do.
type EarlyEviction uint8

// The choices for extra looks.
const (
	// Doomed: they act only on memory that would be gone before a kill could
	// still help.
	Imminent EarlyEviction = iota
	// Immediate: they are regular looks, as the kubelet's with its memcg
	// notification.
	Immediate
	// Off: they are ignored.
	Never
)

var earlyEvictionNames = [...]string{"imminent", "immediate", "never"}

func (e EarlyEviction) String() string { return earlyEvictionNames[e] }

// ParseEarlyEviction returns the choice of that name.
func ParseEarlyEviction(name string) (EarlyEviction, error) {
	for i, n := range earlyEvictionNames {
		if n == name {
			return EarlyEviction(i), nil
		}
	}
	return 0, fmt.Errorf("unknown choice %q for early evictions: use imminent, immediate or never", name)
}

// Defaults of the policy, where the configuration says nothing.
const (
	DefaultTransitionPeriod     = 5 * time.Minute
	DefaultEarlyEvictionHorizon = 500 * time.Millisecond
)

// A Policy is the compiled configuration of the decisions. Make it with
// [NewPolicy]; it does not change afterwards.
type Policy struct {
	// Thresholds in acting order: by signal, hard before soft.
	Thresholds []Threshold
	Configured signals.Set

	Layout               signals.Layout
	TransitionPeriod     time.Duration // how long a condition stays True at least
	MaxPodGracePeriod    int64         // seconds, soft evictions; negative defers to the pod
	StorageLimits        bool          // evict pods above their local-storage limits
	EarlyEviction        EarlyEviction
	EarlyEvictionHorizon time.Duration // memory that is gone sooner is doomed

	hardMemory thresholdSet
	all        thresholdSet
}

// Settings are what a policy is compiled from.
type Settings struct {
	Thresholds           []Threshold
	BindAllocatable      bool // hard memory thresholds also bind allocatableMemory.available
	Layout               signals.Layout
	TransitionPeriod     time.Duration
	MaxPodGracePeriod    int64
	StorageLimits        bool
	EarlyEviction        EarlyEviction
	EarlyEvictionHorizon time.Duration
}

// NewPolicy compiles settings: hard memory thresholds are copied to
// allocatable memory where that is enforced, and containerfs thresholds follow
// those of nodefs or imagefs; configured ones are never used.
func NewPolicy(s Settings) (*Policy, error) {
	p := &Policy{
		Layout:               s.Layout,
		TransitionPeriod:     s.TransitionPeriod,
		MaxPodGracePeriod:    s.MaxPodGracePeriod,
		StorageLimits:        s.StorageLimits,
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

// bindAllocatable copies hard memory thresholds to allocatable memory. The
// copies come after what is configured for it.
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
