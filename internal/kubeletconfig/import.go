package kubeletconfig

import (
	"errors"
	"fmt"
	"strconv"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Shared are the configurations with which an agent replaces a kubelet's evictions. The kubelet
// continues to report conditions and remains the backstop.
type Shared struct {
	// Agent is an AgentConfiguration with the kubelet's previous evictions.
	Agent []byte
	// Kubelet is a KubeletConfiguration for the kubelet's drop-in directory. It contains only the
	// required changes.
	Kubelet []byte
	// Notes are remarks for the operator about applying both, one sentence each.
	Notes []string
}

// reportsOnly is the grace period with which a kubelet reports conditions and never evicts.
const reportsOnly = "8760h"

// Share derives both configurations from a kubelet's.
//
// The agent gets the kubelet's thresholds. The kubelet retains hard ones of half of each, as
// protection of a node with a dead agent. It gets soft ones at the agent's lines, by which it
// reports conditions. A kubelet subtracts its hard thresholds for memory and nodefs from the
// allocatable resources. systemReserved increases by the difference, so that allocatable does not
// change.
//
// capacity returns the amounts that percentages of memory.available and nodefs.available refer to.
// If one is unknown, the kubelet's threshold stays unchanged, and the agent's is a quarter above
// it.
//
// The limit of all pods falls by the increase of systemReserved. There the kubelet evicts above
// allocatable with any threshold, so for allocatableMemory.available the agent gets half of the one
// that the kubelet retains: it evicts if the kubelet is too slow.
//
// Returns [strictyaml.Faults] if no kubelet would start with the configuration, or if two
// thresholds cannot be compared.
func (s Sources) Share(capacity Capacity) (Shared, error) {
	var faults strictyaml.Faults
	r := s.open(&faults)
	was := r.config()
	if err := faults.Err(); err != nil {
		return Shared{}, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	p := &sharing{from: r, was: was, capacity: capacity, reserved: map[string]string{}, flagged: fromArgs(s.Args) != nil}
	p.pods.enforced = r.enforcesPods()
	for _, t := range was.Hard {
		p.part(t)
	}
	p.lines()
	if err := faults.Err(); err != nil {
		return Shared{}, fmt.Errorf("share a node with the kubelet: %w", err)
	}
	p.remarks()
	return Shared{Agent: p.agent(), Kubelet: p.kubelet(), Notes: p.notes}, nil
}

// sharing is the state of one derivation.
type sharing struct {
	from     *kubeletFile
	was      Config
	capacity Capacity
	flagged  bool

	ours, kubelets pairsInOrder      // hard thresholds, by signal
	soft           pairsInOrder      // of the kubelet
	reserved       map[string]string // systemReserved with its increase, by resource
	pods           podsLimit
	raised         []string
	notes          []string
}

// reservedFor is the resource that a kubelet reduces by its hard threshold.
var reservedFor = map[signals.Signal]string{
	signals.MemoryAvailable: "memory",
	signals.NodefsAvailable: "ephemeral-storage",
}

// part divides one hard threshold of the kubelet.
func (p *sharing) part(t Threshold) {
	resource, withheld := reservedFor[t.Signal]
	switch {
	case t.Signal.Definition().Filesystem == signals.Containerfs:
		p.ours.add(t.Signal, t.Text) // the kubelet derives it, whatever its configuration
		return
	case t.Signal == signals.AllocatableMemoryAvailable && p.pods.divided: // the agent has it already
		p.kubelets.add(t.Signal, half(p.pods.ours).Text)
		return
	case withheld && t.Percent > 0 && p.capacity(t.Signal) <= 0:
		p.kubelets.add(t.Signal, t.Text)
		p.raise(t)
		p.divideForPods(t)
		return
	}
	halved := half(t)
	p.ours.add(t.Signal, t.Text)
	p.kubelets.add(t.Signal, halved.Text)
	if c := p.capacity(t.Signal); withheld && t.Of(c) != halved.Of(c) {
		p.reserve(resource, t.Of(c)-halved.Of(c))
	}
	p.divideForPods(halved)
}

// podsLimit has the thresholds for allocatableMemory.available: the limit of all pods.
type podsLimit struct {
	enforced bool      // the kubelet sets the limit, and applies its hard memory threshold to it
	divided  bool      // a hard memory threshold was divided, and with it those for the limit
	kubelets Threshold // the memory threshold that the kubelet applies; without text: none
	ours     Threshold // of the agent; without text: none
}

// divideForPods sets the thresholds for the limit of all pods. kept is the memory threshold that the
// kubelet retains. It evicts above allocatable, whatever the threshold: the limit is allocatable plus
// that. An agent that acts before would evict pods that use less than allocatable, and always with a
// threshold above the limit. At the same threshold both would evict. So the agent acts later. Configured
// thresholds for the limit are halved, since it falls.
func (p *sharing) divideForPods(kept Threshold) {
	if kept.Signal != signals.MemoryAvailable {
		return
	}
	p.pods.divided = true
	kept.Signal = signals.AllocatableMemoryAvailable
	var all []Threshold
	if p.pods.enforced && kept.Text != off {
		p.pods.kubelets, all = kept, append(all, kept)
	}
	for _, t := range p.was.Hard {
		if t.Signal == kept.Signal {
			all = append(all, t)
		}
	}
	for _, t := range all {
		h := half(t)
		if order, comparable := h.Compare(p.pods.ours, 0); h.Text != off && (p.pods.ours.Text == "" || !comparable || order > 0) {
			p.pods.ours = h
		}
	}
	if p.pods.ours.Text != "" {
		p.ours.add(kept.Signal, p.pods.ours.Text)
	}
	if soft := p.softOf(kept.Signal); soft != nil {
		*soft = half(*soft)
	}
}

// softOf returns the soft threshold of a signal; nil if there is none.
func (p *sharing) softOf(s signals.Signal) *Threshold {
	for i := range p.was.Soft {
		if p.was.Soft[i].Signal == s {
			return &p.was.Soft[i]
		}
	}
	return nil
}

// off is the text of a disabled threshold.
const off = "0%"

// half returns the threshold that remains in the kubelet. Half of an amount of 1 is 0.
func half(t Threshold) Threshold {
	halved := Threshold{Signal: t.Signal, Amount: t.Amount / 2, Percent: float64(float32(t.Percent / 2))}
	switch {
	case halved.Amount > 0:
		halved.Text = signals.Format(halved.Amount, t.Signal.Definition().Unit)
	case halved.Percent > 0:
		halved.Text = percent(halved.Percent)
	default:
		halved.Text = off
	}
	return halved
}

func percent(p float64) string { return strconv.FormatFloat(p, 'f', -1, 32) + "%" }

// raise sets the agent's threshold a quarter above the kubelet's unchanged one. Close to the whole
// capacity it uses half of the remaining distance.
func (p *sharing) raise(t Threshold) {
	above := float64(float32(min(t.Percent*1.25, (t.Percent+100)/2)))
	if above <= t.Percent || above >= 100 {
		p.from.faults.Add("evictionHard["+t.Signal.String()+"]", t.Text, "leaves no room above it for the agent's: lower it, or give --capacity")
		return
	}
	p.ours.add(t.Signal, percent(above))
	p.raised = append(p.raised, t.Signal.String())
}

// reserve increases the kubelet's reservation for the system.
func (p *sharing) reserve(resource string, gain signals.Amount) {
	more, err := strictyaml.ParseQuantity(signals.Format(gain, signals.UnitBytes))
	if err != nil {
		p.from.faults.Add("systemReserved["+resource+"]", fmt.Sprint(gain), "%v", err)
		return
	}
	sum := more
	if v, there := p.from.entries("systemReserved")[resource]; there {
		sum = v.Quantity()
		sum.Add(more)
	}
	p.reserved[resource] = sum.String()
}

var errUnlike = errors.New("can not be compared with the threshold for the same signal in evictionHard: write both as amounts or both as percentages, or give --capacity")

// lines sets the kubelet's soft thresholds: the agent's upper ones, by which it sets conditions. As
// in the agent, the one for memory covers the signals derived from it.
func (p *sharing) lines() {
	for s := range signals.All {
		var upper Threshold
		for _, t := range p.linesOf(s) {
			order, comparable := t.Compare(upper, p.capacity(s))
			if upper.Text != "" && !comparable {
				p.from.faults.Add("evictionSoft["+s.String()+"]", t.Text, "%v", errUnlike)
			}
			if upper.Text == "" || order > 0 {
				upper = t
			}
		}
		if upper.Text != "" && s.Definition().Filesystem != signals.Containerfs {
			p.soft.add(s, upper.Text)
		}
	}
}

// linesOf returns the agent's thresholds of a signal: hard, then soft. The hard one for the limit of
// all pods is left out where the kubelet's is at or above it.
func (p *sharing) linesOf(s signals.Signal) (lines []Threshold) {
	if text, there := p.ours.get(s); there {
		t, err := ParseThreshold(s, text)
		order, comparable := t.Compare(p.pods.kubelets, 0)
		reported := s == p.pods.kubelets.Signal && p.pods.kubelets.Text != "" && comparable && order <= 0
		if err == nil && !reported {
			lines = append(lines, t)
		}
	}
	if soft := p.softOf(s); soft != nil {
		lines = append(lines, *soft)
	}
	return lines
}

// capacityOf maps a resource of a Node to the signal with percentages of it.
var capacityOf = map[string]signals.Signal{
	"memory":            signals.MemoryAvailable,
	"ephemeral-storage": signals.NodefsAvailable,
}

// ParseCapacity returns the capacity of a machine by quantities of resources, as a Node's
// status.capacity has them. Returns [strictyaml.Faults] at the place if a resource is
// unknown, or a quantity is not positive.
func ParseCapacity(place string, given map[string]string) (Capacity, error) {
	var faults strictyaml.Faults
	known := map[signals.Signal]signals.Amount{}
	for key, text := range given {
		s, is := capacityOf[key]
		q, err := strictyaml.ParseQuantity(text)
		switch {
		case !is:
			faults.Add(place, key, "must be memory or ephemeral-storage")
		case err != nil || q.Sign() <= 0:
			faults.Add(place+"="+key, text, "must be a positive quantity, such as 16Gi")
		default:
			known[s] = signals.Amount(strictyaml.Whole(q))
		}
	}
	return func(s signals.Signal) signals.Amount { return known[s] }, faults.Err()
}
