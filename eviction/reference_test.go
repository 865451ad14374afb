package eviction_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// The reference model implements the contract literally, with maps and lists, without regard to
// speed. Its thresholds are identified by their index in its own list. It shares no structure with
// the machine.

type referenceThreshold struct {
	signal   string
	amount   int64 // with percent 0
	percent  float32
	reclaim  int64
	reclaimP float32
	grace    time.Duration
}

type referenceObservation struct {
	available, capacity int64
	at                  time.Duration
}

type referenceStep struct {
	at    time.Duration
	early bool
	seen  map[string]referenceObservation
	after map[string]referenceObservation // replaces seen, after garbage collection
}

type reference struct {
	list          []referenceThreshold
	transition    time.Duration
	reserve       time.Duration
	earlyEviction string

	since        map[int]time.Duration // threshold: met since
	grown        map[int]bool          // threshold: was past its grace period
	unknownSince map[string]time.Duration
	seenAt       map[string]time.Duration
	lastMet      map[string]time.Duration
	on           map[string]bool
	before       *referenceStep
}

var signalOrder = []string{"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree",
	"imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available"}

func conditionOf(sig string) string {
	switch {
	case strings.Contains(strings.ToLower(sig), "memory"):
		return "MemoryPressure"
	case strings.HasPrefix(sig, "pid"):
		return "PIDPressure"
	}
	return "DiskPressure"
}

// newReference derives thresholds by the contract: allocatable memory if enforced, containerfs
// from the signal it follows.
func newReference(configured []referenceThreshold, enforced bool, layout string) *reference {
	t := &reference{since: map[int]time.Duration{}, grown: map[int]bool{}}
	t.forget()
	t.lastMet, t.on, t.unknownSince = map[string]time.Duration{}, map[string]bool{}, map[string]time.Duration{}
	var list []referenceThreshold
	for _, c := range configured {
		if !strings.HasPrefix(c.signal, "containerfs") {
			list = append(list, c)
		}
	}
	for _, c := range slices.Clone(list) {
		if enforced && c.signal == "memory.available" && c.grace == 0 {
			c.signal = "allocatableMemory.available"
			list = append(list, c)
		}
	}
	source := "nodefs"
	if layout == "dedicated" {
		source = "imagefs"
	}
	for _, c := range slices.Clone(list) {
		if rest, ok := strings.CutPrefix(c.signal, source); ok {
			c.signal = "containerfs" + rest
			list = append(list, c)
		}
	}
	for _, sig := range signalOrder {
		for _, soft := range []bool{false, true} {
			for _, c := range list {
				if c.signal == sig && (c.grace > 0) == soft && !slices.Contains(t.list, c) {
					t.list = append(t.list, c)
				}
			}
		}
	}
	return t
}

// forget drops the state that a restart of the agent drops.
func (t *reference) forget() { t.seenAt, t.before = map[string]time.Duration{}, nil }

func share(percent float32, amount, capacity int64) int64 {
	if percent != 0 {
		return int64(float64(capacity) * float64(percent))
	}
	return amount
}

func (c referenceThreshold) isMet(s referenceObservation, withReclaim bool) bool {
	line := share(c.percent, c.amount, s.capacity)
	if withReclaim {
		line += share(c.reclaimP, c.reclaim, s.capacity)
	}
	return s.available < line
}

func (t *reference) configured() []string {
	var names []string
	for _, sig := range signalOrder {
		if slices.ContainsFunc(t.list, func(c referenceThreshold) bool { return c.signal == sig }) {
			names = append(names, sig)
		}
	}
	return names
}

// imminent reports whether a hard memory threshold is met, and the headroom is exhausted or lasts
// no longer than the horizon.
func (t *reference) imminent(s *referenceStep) bool {
	for _, c := range t.list {
		now, known := s.seen[c.signal]
		if conditionOf(c.signal) != "MemoryPressure" || c.grace != 0 || !known || !c.isMet(now, false) {
			continue
		}
		if now.available == 0 {
			return true
		}
		if t.before == nil {
			continue
		}
		then, known := t.before.seen[c.signal]
		if !known || then.available <= now.available {
			continue
		}
		rate := big.NewRat(then.available-now.available, int64(s.at-t.before.at))
		lasts := new(big.Rat).Quo(new(big.Rat).SetInt64(now.available), rate)
		if lasts.Cmp(new(big.Rat).SetInt64(int64(t.reserve))) <= 0 {
			return true
		}
	}
	return false
}

type referenceVerdict struct {
	conditions, met, unknown []string
	acts                     string // signal acted for, or ""
	threshold                int    // its index
	evicts                   bool   // a pod would be evicted: no recovery by garbage collection
}

func (t *reference) check(s *referenceStep) referenceVerdict {
	answer := referenceVerdict{threshold: -1}
	for _, sig := range t.configured() {
		if _, known := s.seen[sig]; !known {
			answer.unknown = append(answer.unknown, sig)
		}
	}
	full := !s.early || t.earlyEviction == "immediate"
	acting := full || t.earlyEviction == "imminent" && t.imminent(s)
	if acting {
		t.decide(s, full, &answer)
	}
	for _, c := range []string{"DiskPressure", "MemoryPressure", "PIDPressure"} {
		if t.on[c] {
			answer.conditions = append(answer.conditions, c)
		}
	}
	t.before = s
	return answer
}

func (t *reference) decide(s *referenceStep, full bool, answer *referenceVerdict) {
	if full {
		for _, sig := range signalOrder {
			if _, known := s.seen[sig]; known {
				delete(t.unknownSince, sig)
			} else if _, already := t.unknownSince[sig]; !already {
				t.unknownSince[sig] = s.at
			}
		}
	}
	forgotten := func(sig string) bool {
		since, unknownSince := t.unknownSince[sig]
		return unknownSince && s.at-since > t.transition
	}
	past := t.advance(s, full, forgotten)
	for _, i := range past {
		if !slices.Contains(answer.met, t.list[i].signal) {
			answer.met = append(answer.met, t.list[i].signal)
		}
	}
	for _, condition := range []string{"DiskPressure", "MemoryPressure", "PIDPressure"} {
		last, ever := t.lastMet[condition]
		stays := !full
		for _, sig := range t.configured() {
			if _, known := s.seen[sig]; !known && conditionOf(sig) == condition && !forgotten(sig) {
				stays = true
			}
		}
		t.on[condition] = ever && s.at-last < t.transition || stays && t.on[condition]
	}
	for _, i := range past {
		used, before := t.seenAt[t.list[i].signal]
		if !before || s.seen[t.list[i].signal].at > used {
			answer.acts, answer.threshold = t.list[i].signal, i
			break
		}
	}
	for _, i := range past {
		now, known := s.after[t.list[i].signal]
		if !known {
			now = s.seen[t.list[i].signal]
		}
		answer.evicts = answer.evicts || answer.acts != "" && t.list[i].isMet(now, true)
	}
	for _, sig := range signalOrder {
		if full || conditionOf(sig) == "MemoryPressure" {
			delete(t.seenAt, sig)
			if now, known := s.seen[sig]; known {
				t.seenAt[sig] = now.at
			}
		}
	}
}

// advance updates the timers and returns the met thresholds with their grace period passed.
func (t *reference) advance(s *referenceStep, full bool, forgotten func(string) bool) (past []int) {
	for i, c := range t.list {
		if !full && (c.grace != 0 || conditionOf(c.signal) != "MemoryPressure") {
			continue
		}
		now, known := s.seen[c.signal]
		if !known {
			if forgotten(c.signal) {
				delete(t.since, i)
				delete(t.grown, i)
			}
			continue
		}
		if !c.isMet(now, false) && !(t.grown[i] && c.isMet(now, true)) {
			delete(t.since, i)
			delete(t.grown, i)
			continue
		}
		if _, running := t.since[i]; !running {
			t.since[i] = s.at
		}
		t.lastMet[conditionOf(c.signal)] = s.at
		t.grown[i] = s.at-t.since[i] >= c.grace
		if t.grown[i] {
			past = append(past, i)
		}
	}
	return past
}

// Conversions to the machine's types.

func (c referenceThreshold) threshold() eviction.Threshold {
	sig, err := signals.Parse(c.signal)
	if err != nil {
		panic(err)
	}
	amount := func(n int64, percent float32) eviction.Value {
		if percent != 0 {
			return eviction.Value{Fraction: percent, Percent: fmt.Sprintf("%v%%", percent*100)}
		}
		return eviction.Value{Quantity: signals.Quantity{Value: signals.Amount(n)}}
	}
	return eviction.Threshold{Signal: sig, Value: amount(c.amount, c.percent), Grace: c.grace, MinReclaim: amount(c.reclaim, c.reclaimP)}
}

func (s *referenceStep) snapshot(before *referenceStep) *signals.Snapshot {
	snapshot := &signals.Snapshot{At: epoch.Add(s.at)}
	if s.early {
		snapshot.Kind = signals.Early
	}
	fill(&snapshot.Node, s.seen)
	for sig := range signals.All {
		if before == nil {
			break
		}
		now, known := s.seen[sig.String()]
		then, was := before.seen[sig.String()]
		if known && was {
			snapshot.Rates[sig] = signals.Rate{By: signals.Amount(then.available - now.available), Over: s.at - before.at}
		}
	}
	return snapshot
}

func fill(into *signals.Observations, seen map[string]referenceObservation) {
	for sig := range signals.All {
		if o, known := seen[sig.String()]; known {
			into[sig] = signals.Observed(signals.Amount(o.available), signals.Amount(o.capacity), epoch.Add(o.at))
		}
	}
}
