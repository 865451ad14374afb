package kubeletconfig

import (
	"errors"
	"fmt"
	"strconv"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Shared are the configurations by which an agent takes a kubelet's evictions over,
// and the kubelet stays its reporter and its backstop.
type Shared struct {
	// Agent is an AgentConfiguration that evicts as the kubelet did.
	Agent []byte
	// Kubelet is a KubeletConfiguration for the kubelet's drop-in directory: what has
	// to change, and nothing else.
	Kubelet []byte
	// Notes are what somebody who applies both should know, a sentence each.
	Notes []string
}

// reportsOnly is the grace period with which a kubelet reports, and never evicts.
const reportsOnly = "8760h"

// Share makes both configurations of a kubelet's.
//
// The agent gets the kubelet's thresholds. The kubelet keeps hard ones of half of
// each, so that a node whose agent is dead is still protected, and soft ones at the
// agent's lines, by which it reports. A kubelet subtracts its hard thresholds for
// memory and nodefs from what it offers to pods; what they lose systemReserved
// gains, so that allocatable stays as it was.
//
// What a percentage of memory or nodefs is worth says capacity, by
// memory.available and nodefs.available. Where it does not say, the kubelet's
// threshold stays as it is, and the agent's is a quarter above it.
//
// What no kubelet would start with is a fault of type [strictyaml.Faults], as are
// thresholds of which it can not be told which one is above the other.
func (s Sources) Share(capacity Capacity) (Shared, error) {
	var faults strictyaml.Faults
	r := s.open(&faults)
	was := r.config()
	if err := faults.Err(); err != nil {
		return Shared{}, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	p := &sharing{from: r, was: was, capacity: capacity, reserved: map[string]string{}, flagged: fromArgs(s.Args) != nil}
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

// A sharing is on its way.
type sharing struct {
	from     *kubeletFile
	was      Config
	capacity Capacity
	flagged  bool

	ours, kubelets pairsInOrder      // hard thresholds, by signal
	soft           pairsInOrder      // of the kubelet
	reserved       map[string]string // systemReserved with what it gains, by resource
	raised         []string
	notes          []string
}

// reservedFor is the resource of which a kubelet withholds its hard threshold.
var reservedFor = map[signals.Signal]string{
	signals.MemoryAvailable: "memory",
	signals.NodefsAvailable: "ephemeral-storage",
}

// part shares one hard threshold of the kubelet's.
func (p *sharing) part(t Threshold) {
	resource, withheld := reservedFor[t.Signal]
	switch {
	case t.Signal.Definition().Filesystem == signals.Containerfs:
		p.ours.add(t.Signal, t.Text) // a kubelet derives it, whatever is configured
		return
	case withheld && t.Percent > 0 && p.capacity(t.Signal) <= 0:
		p.kubelets.add(t.Signal, t.Text)
		p.raise(t)
		return
	}
	kept := half(t)
	p.ours.add(t.Signal, t.Text)
	p.kubelets.add(t.Signal, kept.Text)
	if c := p.capacity(t.Signal); withheld && t.Of(c) != kept.Of(c) {
		p.reserve(resource, t.Of(c)-kept.Of(c))
	}
}

// off is a threshold that is none.
const off = "0%"

// half is what the kubelet keeps of a threshold. Of an amount of 1 nothing is left.
func half(t Threshold) Threshold {
	kept := Threshold{Signal: t.Signal, Amount: t.Amount / 2, Percent: float64(float32(t.Percent / 2))}
	switch {
	case kept.Amount > 0:
		kept.Text = signals.Format(kept.Amount, t.Signal.Definition().Unit)
	case kept.Percent > 0:
		kept.Text = percent(kept.Percent)
	default:
		kept.Text = off
	}
	return kept
}

func percent(p float64) string { return strconv.FormatFloat(p, 'f', -1, 32) + "%" }

// raise puts the agent's threshold a quarter above the kubelet's, which stays as it
// is. Close to the whole capacity it goes half of the way that is left.
func (p *sharing) raise(t Threshold) {
	above := float64(float32(min(t.Percent*1.25, (t.Percent+100)/2)))
	if above <= t.Percent || above >= 100 {
		p.from.faults.Add("evictionHard["+t.Signal.String()+"]", t.Text, "leaves no room above it for the agent's: lower it, or give --capacity")
		return
	}
	p.ours.add(t.Signal, percent(above))
	p.raised = append(p.raised, t.Signal.String())
}

// reserve adds to what the kubelet withholds for the system.
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

// lines are the kubelet's soft thresholds: the agent's upper ones, by which it sets
// conditions. That on memory speaks for what follows from it, as it does for the
// agent.
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

// linesOf are the agent's thresholds of a signal: hard, then soft.
func (p *sharing) linesOf(s signals.Signal) (lines []Threshold) {
	if text, there := p.ours.get(s); there {
		if t, err := ParseThreshold(s, text); err == nil {
			lines = append(lines, t)
		}
	}
	for _, t := range p.was.Soft {
		if t.Signal == s {
			lines = append(lines, t)
		}
	}
	return lines
}

// capacityOf are the signals whose percentages refer to a resource of a Node.
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
