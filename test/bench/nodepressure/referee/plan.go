package referee

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/hog"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

// The neighbour's work, the same in every incident.
const (
	requestRate   = 200      // per second
	freshMemory   = 64 << 10 // bytes
	workingShare  = 0.03     // of the node
	minWorking    = 4 << 20
	requestsShare = 0.06 // of the node, that its pod requests
)

// phases is the number of equal parts of a contestant's period.
const phases = 10

// plan is an incident with all numbers of one run.
type plan struct {
	spec.Incident
	total     int64
	threshold int64
	gauge     gauge.Gauge
	seed      uint64
	phase     time.Duration // of the contestant's period that passes before the incident
	order     []int         // in which pods are made
}

// newPlan draws the numbers of a run from its seed.
func newPlan(i spec.Incident, g gauge.Gauge, seed uint64, period time.Duration) *plan {
	p := &plan{Incident: i, total: g.Total, threshold: i.Threshold.Of(g.Total), gauge: g, seed: seed}
	if period > 0 {
		part := int64(seed % phases) // ten runs with following seeds meet each part of the period
		p.phase = time.Duration((part*int64(period) + p.dice("phase").Int64N(int64(period))) / phases)
	}
	p.order = p.dice("order").Perm(len(p.instances()))
	return p
}

// dice returns the numbers for one purpose. They depend on the incident, the seed and the purpose only: neither
// on the contestant, nor on the order in which pods end and are replaced.
func (p *plan) dice(purpose string) *rand.Rand {
	name := fnv.New64a()
	_, _ = name.Write([]byte(p.Name + "/" + purpose)) // a hash has no errors
	return rand.New(rand.NewPCG(p.seed, name.Sum64()))
}

// podInstance is one pod of an incident.
type podInstance struct {
	pod  *spec.Pod
	name string
}

func (p *plan) instances() (all []podInstance) {
	for i := range p.Pods {
		for _, name := range p.Pods[i].Names() {
			all = append(all, podInstance{&p.Pods[i], name})
		}
	}
	return all
}

// programs returns what the processes of one pod or daemon do. The caller adds the files.
func (p *plan) programs(name string, processes []spec.Process) (all []hog.Program) {
	dice := p.dice("programs of " + name)
	for i := range processes {
		x := &processes[i]
		for range x.Count {
			all = append(all, hog.Program{
				Gauge: p.gauge, Before: p.steps(dice, x.Before), Steps: p.steps(dice, x.Steps), Exec: x.Command,
			})
		}
	}
	return all
}

func (p *plan) steps(dice *rand.Rand, steps []spec.Step) (all []hog.Step) {
	for i := range steps {
		s := &steps[i]
		all = append(all, hog.Step{
			Verb: s.Verb, Bytes: s.Amount.Of(p.total), AllBut: s.Amount.AllBut, Rate: p.vary(dice, s.Rate.Of(p.total)),
			Time: time.Duration(p.vary(dice, int64(s.Time))), Count: s.Count, AtOnce: s.AtOnce,
			Every: time.Duration(p.vary(dice, int64(s.Every))), Session: s.Session, Steps: p.steps(dice, s.Steps),
		})
	}
	return all
}

// vary changes a number by at most the jitter of the incident.
func (p *plan) vary(dice *rand.Rand, n int64) int64 {
	if p.Jitter == 0 || n == 0 {
		return n
	}
	return max(int64(float64(n)*(1+p.Jitter*(2*dice.Float64()-1))), 1)
}

// fingerprint identifies what a run does to its node: equal for one incident, seed and size of the node, whatever
// the contestant. Successors of pods are drawn in the same way.
func (p *plan) fingerprint() (string, error) {
	type drawn struct {
		Name     string
		Programs []hog.Program
		UID      string
	}
	programs := func(name string, processes []spec.Process) []hog.Program {
		all := p.programs(name, processes)
		for i := range all {
			all[i].Gauge = gauge.Gauge{} // its file has the name of the cgroup
		}
		return all
	}
	var pods []drawn
	all := p.instances()
	for _, i := range p.order {
		name := all[i].name
		pods = append(pods, drawn{name, programs(name, all[i].pod.Processes), newUID(p.dice("names of " + name))})
	}
	text, err := json.Marshal([]any{p.total, p.threshold, pods, programs(daemonName, p.System)})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12], nil
}

// neighbour is the pod that serves requests.
func (p *plan) neighbour() (spec.Pod, hog.Program) {
	working := max(int64(workingShare*float64(p.total)), minWorking)
	pod := spec.Pod{Name: spec.Neighbour, Count: 1, Request: spec.Amount{Share: requestsShare}}
	return pod, hog.Program{Serve: &hog.Serve{Rate: requestRate, Working: working, Fresh: freshMemory}}
}

// qos returns the class of a pod by its memory alone. Its manifest has equal requests and limits of CPU.
func (p *plan) qos(pod *spec.Pod) arena.QoS {
	request, limit := pod.Request.Of(p.total), pod.Limit.Of(p.total)
	switch {
	case request == 0 && limit == 0:
		return arena.BestEffort
	case limit > 0 && (request == limit || request == 0):
		return arena.Guaranteed
	}
	return arena.Burstable
}

// duration returns the longest time of a run, for the neighbour's records.
func (p *plan) duration() time.Duration {
	return quietTime + p.phase + p.Duration + readyTimeout + time.Minute
}
