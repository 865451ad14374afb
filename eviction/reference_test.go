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

// The reference model decides by the words of the contract, with maps and lists and without
// regard to speed. Its thresholds are identified by their index in its own list. It uses nothing
// of the machine's structure.

type twinThreshold struct {
	signal   string
	amount   int64 // with percent 0
	percent  float32
	reclaim  int64
	reclaimP float32
	grace    time.Duration
}

type twinSeen struct {
	available, capacity int64
	at                  time.Duration
}

type twinStep struct {
	at    time.Duration
	extra bool
	seen  map[string]twinSeen
	after map[string]twinSeen // replaces seen, after garbage collection
}

type twin struct {
	list       []twinThreshold
	transition time.Duration
	reserve    time.Duration
	extraLooks string

	since   map[int]time.Duration // threshold: met since
	grown   map[int]bool          // threshold: was past its grace period
	blind   map[string]time.Duration
	seenAt  map[string]time.Duration
	lastMet map[string]time.Duration
	on      map[string]bool
	before  *twinStep
}

var twinOrder = []string{"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree",
	"imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available"}

func twinCondition(sig string) string {
	switch {
	case strings.Contains(strings.ToLower(sig), "memory"):
		return "MemoryPressure"
	case strings.HasPrefix(sig, "pid"):
		return "PIDPressure"
	}
	return "DiskPressure"
}

// newTwin derives thresholds as the contract does: allocatable memory if enforced, containerfs
// from the signal it follows.
func newTwin(configured []twinThreshold, enforced bool, layout string) *twin {
	t := &twin{since: map[int]time.Duration{}, grown: map[int]bool{}}
	t.forget()
	t.lastMet, t.on, t.blind = map[string]time.Duration{}, map[string]bool{}, map[string]time.Duration{}
	var list []twinThreshold
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
	for _, sig := range twinOrder {
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
func (t *twin) forget() { t.seenAt, t.before = map[string]time.Duration{}, nil }

func share(percent float32, amount, capacity int64) int64 {
	if percent != 0 {
		return int64(float64(capacity) * float64(percent))
	}
	return amount
}

func (c twinThreshold) isMet(s twinSeen, withReclaim bool) bool {
	line := share(c.percent, c.amount, s.capacity)
	if withReclaim {
		line += share(c.reclaimP, c.reclaim, s.capacity)
	}
	return s.available < line
}

func (t *twin) configured() []string {
	var names []string
	for _, sig := range twinOrder {
		if slices.ContainsFunc(t.list, func(c twinThreshold) bool { return c.signal == sig }) {
			names = append(names, sig)
		}
	}
	return names
}

// doomed reports whether a hard memory threshold is met, and the headroom is exhausted or lasts
// no longer than the horizon.
func (t *twin) doomed(s *twinStep) bool {
	for _, c := range t.list {
		now, known := s.seen[c.signal]
		if twinCondition(c.signal) != "MemoryPressure" || c.grace != 0 || !known || !c.isMet(now, false) {
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

type twinAnswer struct {
	conditions, met, unknown []string
	acts                     string // signal acted for, or ""
	threshold                int    // its index
	evicts                   bool   // a pod would be evicted: no recovery by garbage collection
}

func (t *twin) look(s *twinStep) twinAnswer {
	answer := twinAnswer{threshold: -1}
	for _, sig := range t.configured() {
		if _, known := s.seen[sig]; !known {
			answer.unknown = append(answer.unknown, sig)
		}
	}
	full := !s.extra || t.extraLooks == "immediate"
	acting := full || t.extraLooks == "imminent" && t.doomed(s)
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

func (t *twin) decide(s *twinStep, full bool, answer *twinAnswer) {
	if full {
		for _, sig := range twinOrder {
			if _, known := s.seen[sig]; known {
				delete(t.blind, sig)
			} else if _, already := t.blind[sig]; !already {
				t.blind[sig] = s.at
			}
		}
	}
	forgotten := func(sig string) bool {
		since, blind := t.blind[sig]
		return blind && s.at-since > t.transition
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
			if _, known := s.seen[sig]; !known && twinCondition(sig) == condition && !forgotten(sig) {
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
	for _, sig := range twinOrder {
		if full || twinCondition(sig) == "MemoryPressure" {
			delete(t.seenAt, sig)
			if now, known := s.seen[sig]; known {
				t.seenAt[sig] = now.at
			}
		}
	}
}

// advance updates the timers and returns the met thresholds with their grace period passed.
func (t *twin) advance(s *twinStep, full bool, forgotten func(string) bool) (past []int) {
	for i, c := range t.list {
		if !full && (c.grace != 0 || twinCondition(c.signal) != "MemoryPressure") {
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
		t.lastMet[twinCondition(c.signal)] = s.at
		t.grown[i] = s.at-t.since[i] >= c.grace
		if t.grown[i] {
			past = append(past, i)
		}
	}
	return past
}

// In the machine's terms.

func (c twinThreshold) threshold() eviction.Threshold {
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

func (s *twinStep) snapshot(before *twinStep) *signals.Snapshot {
	snapshot := &signals.Snapshot{At: epoch.Add(s.at)}
	if s.extra {
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

func fill(into *signals.Observations, seen map[string]twinSeen) {
	for sig := range signals.All {
		if o, known := seen[sig.String()]; known {
			into[sig] = signals.Observed(signals.Amount(o.available), signals.Amount(o.capacity), epoch.Add(o.at))
		}
	}
}
