package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Expect is the result that a perfect contestant reaches.
type Expect struct {
	Exhausts bool     `json:"exhausts"` // the kernel would have to kill unless a pod ends
	MayKill  []string `json:"mayKill"`  // pods that may end
	Needed   int      `json:"needed"`   // ends that suffice
}

// Verdict is the result of a run in one word.
type Verdict string

// The verdicts. If several apply, the first one counts, except that a kill by the kernel and the end of the
// heartbeat are lost in every case.
const (
	Invalid Verdict = "invalid" // nothing was measured
	Lost    Verdict = "lost"    // the kernel killed, the node hung, or memory ran out and did not come back
	Wrong   Verdict = "wrong"   // a pod ended or stopped that must not
	Died    Verdict = "died"    // the contestant ended
	Regret  Verdict = "regret"  // more ended than was needed
	Won     Verdict = "won"
)

// Verdicts lists the verdicts from the best to the worst.
var Verdicts = []Verdict{Won, Regret, Died, Wrong, Lost, Invalid}

// Limits of a node that is saved and of a run that is valid.
const (
	MaxHeartbeatGap = 10_000 // ms, of a kubelet that reports once per 10 s
	MaxStandstill   = 10_000 // ms, in which the neighbour answers nothing
	MaxShortage     = 10_000 // ms, until the end, in which memory has run out and is not back: the longest period of a check
	maxWitnessGap   = 1_000  // ms
	earlyFactor     = 2      // an end before less than twice the threshold was available is early
)

// Score is the judgement of a run.
type Score struct {
	Verdict Verdict `json:"verdict"`
	Saved   bool    `json:"saved"`
	// KernelKills is the kernel's count: a victim of a group (memory.oom.group) counts twice.
	KernelKills int64 `json:"kernelKills"`
	// RightVictim is nil if the contestant ended nothing although something had to end.
	RightVictim    *bool    `json:"rightVictim,omitempty"`
	Ended          int      `json:"ended"` // by the contestant
	Bystanders     []string `json:"bystanders,omitempty"`
	Regrets        int      `json:"regrets"`
	CrossingToDead *float64 `json:"crossingToDead,omitempty"` // ms
	LeftAtKill     *int64   `json:"leftAtKill,omitempty"`     // least available until the end of the first right pod
	TimeLeft       *float64 `json:"timeLeft,omitempty"`       // ms, for which that would have lasted at the rate before it was reached
	Least          int64    `json:"least"`
	Isolation      float64  `json:"isolation"`          // the neighbour's throughput in the worst hundredth of the seconds, percent
	Standstill     float64  `json:"standstill"`         // ms, the longest time without an answer of the neighbour
	P99Ratio       float64  `json:"p99Ratio,omitempty"` // its latency during the incident, by that before
	HeartbeatGap   float64  `json:"heartbeatGap"`       // ms
	Shortage       float64  `json:"shortage,omitempty"` // ms, until the end, in which memory that should run out was not back
	CostUnknown    bool     `json:"costUnknown,omitempty"`
	CPUWaiting     float64  `json:"cpuWaiting"`
	CPUIncident    float64  `json:"cpuIncident"`
	MaxResident    int64    `json:"maxResident"`
	Why            string   `json:"why,omitempty"`
}

// By is what ended a pod.
type By string

// What ends a pod.
const (
	ByKernel     By = "kernel"     // for lack of memory on the node
	ByLimit      By = "limit"      // the kernel, at the pod's own limit
	ByContestant By = "contestant" // a signal that the kernel did not count
	ByItself     By = "itself"     // an exit with an error, or any end without a contestant
)

// End is the end of a pod, or of a part of it.
type End struct {
	Pod, Group string
	At         float64 // ms
	By         By
	Least      int64 // available between the begin and this end
}

// Of returns the score of a run.
func Of(e Expect, o *Observation) Score {
	ends := Ends(o)
	s := Score{
		Least: o.Least, HeartbeatGap: o.Heartbeat.MaxGap,
		Isolation: isolation(&o.Neighbour), Standstill: standstill(&o.Neighbour), P99Ratio: ratio(&o.Neighbour),
		KernelKills: max(o.kills(ByKernel), o.MachineKills-o.kills(ByLimit)),
	}
	if c := o.Contestant; c != nil {
		s.CPUWaiting, s.CPUIncident, s.MaxResident, s.CostUnknown = c.CPUWaiting, c.CPUIncident, c.MaxResident, c.Elsewhere || c.Ended
	}
	if e.Exhausts {
		s.Shortage = o.shortage()
	}
	s.Saved = s.KernelKills == 0 && o.Heartbeat.Alive && o.Heartbeat.MaxGap <= MaxHeartbeatGap && s.Shortage <= MaxShortage && !o.Enlarged
	s.judgeEnds(e, o, ends)
	s.Verdict, s.Why = s.verdict(e, o, ends)
	return s
}

// Ends returns the ends of pods in their order.
func Ends(o *Observation) (all []End) {
	for i := range o.Pods {
		if end, ended := o.end(&o.Pods[i]); ended {
			all = append(all, end)
		}
	}
	slices.SortStableFunc(all, func(a, b End) int { return cmp.Compare(a.At, b.At) })
	return all
}

// end returns the first end of a pod's process. The kernel counts what it kills; every other signal is
// the contestant's, because the referee sends none before the run is over.
func (o *Observation) end(p *Pod) (e End, ended bool) {
	e = End{Pod: p.Name, Group: p.Group, At: math.Inf(1), Least: math.MaxInt64}
	bySignal := ByContestant
	if o.Contestant == nil {
		bySignal = ByItself
	}
	signals := int64(len(p.Lost))
	for i := range p.Deaths {
		d, by := &p.Deaths[i], ByItself
		if d.signalled() {
			by = bySignal
			signals++
		} else if d.Code == 0 && d.Signal == 0 {
			continue
		}
		if d.At < e.At {
			e.At, e.By, e.Least = d.At, by, d.Least
		}
	}
	for _, at := range p.Lost {
		if at < e.At {
			e.At, e.By, e.Least = at, bySignal, o.leastUntil(at)
		}
	}
	kernel := o.kernel(p)
	for _, k := range p.Kills {
		e.At, e.By, e.Least = min(e.At, k.At), kernel, k.Least
	}
	if e.By == ByLimit && signals > sum(p.Kills) { // a kill at the limit does not hide another one
		e.By = bySignal
	}
	return e, e.By != ""
}

// kernel returns why the kernel killed in a pod, ByKernel or ByLimit, or "".
func (o *Observation) kernel(p *Pod) (by By) {
	for _, k := range p.Kills {
		if by = ByKernel; p.AtLimit && k.Least >= o.Threshold {
			by = ByLimit
		}
	}
	return by
}

// kills returns the kernel's count of OOM kills for one of the two reasons.
func (o *Observation) kills(by By) (n int64) {
	for i := range o.Pods {
		if p := &o.Pods[i]; o.kernel(p) == by {
			n += sum(p.Kills)
		}
	}
	return n
}

func sum(kills []Kill) (n int64) {
	for _, k := range kills {
		n += k.Count
	}
	return n
}

// judgeEnds counts right and wrong ends.
func (s *Score) judgeEnds(e Expect, o *Observation, ends []End) {
	right := 0
	for _, end := range ends {
		if end.By != ByContestant && end.By != ByKernel {
			continue
		}
		may := slices.Contains(e.MayKill, end.Group)
		if !may {
			s.Bystanders = append(s.Bystanders, end.Pod)
		}
		if end.By != ByContestant {
			continue
		}
		s.Ended++
		if s.RightVictim == nil {
			s.RightVictim = &may
		}
		if !may {
			continue
		}
		if right++; right > e.Needed || end.Least >= earlyFactor*o.Threshold {
			s.Regrets++
		}
		if right == 1 && o.Crossed != nil && end.At >= *o.Crossed {
			took := end.At - *o.Crossed
			s.CrossingToDead = &took
		}
		if left := end.Least; right == 1 && left < math.MaxInt64 {
			s.LeftAtKill = &left
			if rate := o.fallToLeast(end.At); rate > 0 {
				lasts := float64(left) / rate
				s.TimeLeft = &lasts
			}
		}
	}
	for _, p := range o.Pods {
		if p.Stopped && !slices.Contains(e.MayKill, p.Group) && !slices.Contains(s.Bystanders, p.Name) {
			s.Bystanders = append(s.Bystanders, p.Name)
		}
	}
	if s.Ended == 0 && !e.Exhausts {
		yes := true
		s.RightVictim = &yes
	}
}

func (s *Score) verdict(e Expect, o *Observation, ends []End) (Verdict, string) {
	// A kill by the kernel and the end of the heartbeat are facts, whatever else was measured: a run that ends
	// badly shall not become invalid because the node blinded the witness or failed other workloads.
	switch {
	case s.KernelKills > 0:
		return Lost, fmt.Sprintf("%d OOM kills by the kernel's count", s.KernelKills)
	case !o.Heartbeat.Alive:
		return Lost, "the heartbeat of the node ended"
	}
	if why := invalid(o, ends); why != "" {
		return Invalid, why
	}
	switch {
	case o.Heartbeat.MaxGap > MaxHeartbeatGap:
		return Lost, fmt.Sprintf("no heartbeat for %.1f s", o.Heartbeat.MaxGap/1000)
	case s.Shortage > MaxShortage:
		return Lost, fmt.Sprintf("memory ran out, and did not come back for the last %.1f s", s.Shortage/1000)
	case len(s.Bystanders) > 0:
		return Wrong, fmt.Sprintf("%d pods ended or stopped that must not", len(s.Bystanders))
	case s.Standstill > MaxStandstill:
		return Wrong, fmt.Sprintf("the neighbour answered nothing for %.1f s", s.Standstill/1000)
	case o.Enlarged:
		return Wrong, "the limit of the node was raised"
	case o.Contestant != nil && o.Contestant.Ended:
		return Died, "the contestant ended by itself"
	case s.Regrets > 0:
		return Regret, fmt.Sprintf("%d ends more than needed, or too early", s.Regrets)
	case e.Exhausts && o.Crossed == nil && len(ends) == 0: // last: a contestant may have stopped everything
		return Invalid, "the threshold was never crossed"
	case e.Exhausts && o.Contestant == nil && len(ends) == 0: // a contestant may have slowed the growth
		return Invalid, "memory did not run out in time: the incident is too slow for this machine"
	}
	return Won, ""
}

// invalid returns why a run measured nothing, or "". A heartbeat that stood still for much longer than the
// witness was blind is the node's, not the machine's.
func invalid(o *Observation, ends []End) string {
	if o.Witness.Samples == 0 || o.Witness.MaxGap > maxWitnessGap && o.Heartbeat.MaxGap-o.Witness.MaxGap <= MaxHeartbeatGap {
		return fmt.Sprintf("the witness was blind for %.0f ms", o.Witness.MaxGap)
	}
	if o.Neighbour.Quiet.Requests == 0 {
		return "the neighbour answered nothing before the incident"
	}
	for _, end := range ends {
		if end.By == ByItself {
			return fmt.Sprintf("a process of pod %s ended by itself", end.Pod)
		}
	}
	return ""
}
