package eviction

import (
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Choice is which pod of a ranking is evicted.
type Choice uint8

// The choices.
const (
	// Helps: the first unprotected pod with an end that would help: see [Need].
	Helps Choice = iota
	// AsKubelet: the first unprotected pod, whatever it holds.
	AsKubelet
)

var choiceNames = [...]string{"helps", "kubelet"}

func (c Choice) String() string { return choiceNames[c] }

// ParseChoice returns the choice of that name. It returns an error for an unknown name.
func ParseChoice(name string) (Choice, error) {
	for i, n := range choiceNames {
		if n == name {
			return Choice(i), nil
		}
	}
	return 0, fmt.Errorf("unknown choice %q of the pod to evict: use helps or kubelet", name)
}

// A pod helps if its end frees one of helpParts equal parts of the shortage, but at least minHelp.
// Less is enough only if it is the whole shortage.
const helpParts = 20

// minHelp is in the unit of the signal.
var minHelp = [...]signals.Amount{signals.UnitBytes: 1 << 20, signals.UnitInodes: 1, signals.UnitPIDs: 1}

// Need is what the end of pods has to free for a threshold. With the zero value every pod helps.
type Need struct {
	Shortage signals.Amount // missing until the threshold and its minimum reclaim are satisfied
	Least    signals.Amount // to be freed by the end of one pod
	Together signals.Amount // to be freed by the end of all pods that may be evicted; below that none is
	// Cache is page cache in active use, if it covers the shortage: the kernel reclaims it before it kills. Else 0.
	Cache signals.Amount
}

// NeedFor returns the need of a threshold by an observation. It does not allocate.
//
// A disk that all pods together can not relieve is not worth the end of one. Memory and processes
// have no such rule: a node without them is lost.
func (p *Policy) NeedFor(t *Threshold, o *signals.Observation) Need {
	if p.Choice == AsKubelet {
		return Need{}
	}
	d := t.Signal.Definition()
	shortage := t.Missing(o)
	n := Need{Shortage: shortage, Least: min(shortage, max(partOf(shortage), minHelp[d.Unit]))}
	if d.Condition == signals.DiskPressure {
		n.Together = shortage
	}
	if shortage <= o.Cache {
		n.Cache = o.Cache
	}
	return n
}

// partOf returns one of helpParts equal parts, rounded up: amounts are whole numbers.
func partOf(a signals.Amount) signals.Amount {
	part := a / helpParts
	if a%helpParts > 0 {
		part++
	}
	return part
}

// Growth is how pods grew since an earlier measurement, while the available amount fell.
type Growth struct {
	Fell     signals.Amount // decrease of the available amount, what evictions have freed included
	Together signals.Amount // of the pods that may be evicted and grew
	Largest  signals.Amount // of one of them
}

// LeastGrowth returns the growth from which on a pod helps whatever it holds, while exhaustion is
// imminent. It is 0 if no pod helps for its growth: nothing fell, or usage outside of the pods that
// may be evicted took more than half of it. It does not allocate.
//
// Many pods that grow together may each hold and take little. So a pod is compared with the one that
// grew most, and not with the shortage.
func (p *Policy) LeastGrowth(s signals.Signal, g Growth) signals.Amount {
	if p.Choice == AsKubelet || g.Fell < minHelp[s.Definition().Unit] || g.Together < g.Fell-g.Together {
		return 0
	}
	return max(partOf(g.Largest), 1)
}
