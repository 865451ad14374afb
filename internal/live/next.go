package live

import (
	"cmp"
	"fmt"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/why"
	"plimsoll.dev/plimsoll/ranking"
)

// near is the available amount, in thresholds, below which a signal is near its threshold.
const near = 2

// target returns the threshold to choose a pod for: the first one in acting order that the agent acts for, or else the
// one with the least available amount in relation to it. Without a signal near its threshold it is one of memory: no
// other resource runs out as fast. It returns nil if no signal is known.
func target(p *eviction.Policy, node *signals.Observations, passed signals.Set) (found *eviction.Threshold, met bool) {
	var of [2]struct { // of any signal, and of memory
		t     *eviction.Threshold
		ratio float64
		below bool
	}
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		o := &node[t.Signal]
		at := t.Value.Of(o.Capacity).Value
		if !o.Known || at <= 0 {
			continue
		}
		below, ratio := o.Available < at, float64(o.Available)/float64(at)
		if below && t.Hard() || passed.Has(t.Signal) && t.Missing(o) > 0 { // of a passed one, minimum reclaim included
			return t, true
		}
		for n := range of {
			if (n == 0 || t.Signal.OfMemory()) && (of[n].t == nil || ratio < of[n].ratio) {
				of[n].t, of[n].ratio, of[n].below = t, ratio, below
			}
		}
	}
	if nearest := of[0]; of[1].t == nil || nearest.ratio < near {
		return nearest.t, nearest.below
	}
	return of[1].t, of[1].below
}

// next returns the pod that would be evicted now. Limits on evictions, failures to end a pod, growth, and evictions in
// flight are not considered: the decisions name those.
func (t *Tracker) next(p *eviction.Policy) *Next {
	of, met := target(p, &t.check.Snapshot.Node, t.passed)
	if of == nil || t.usage == nil {
		return nil
	}
	n := &Next{Signal: of.Signal.String(), Configured: of.String(), Met: met, InGrace: met && !of.Hard() && !t.passed.Has(of.Signal), Ranking: []Place{}}
	measure := of.Signal.In(p.Layout).Measure
	candidates, approximate := t.candidates(of.Signal, measure)
	if n.Approximate = approximate; candidates == nil {
		n.Reason = approximate
		return n
	}
	o := t.check.Snapshot.Node[of.Signal]
	if !met { // as if it were just met
		o.Available = min(o.Available, of.Value.Of(o.Capacity).Value-1)
	}
	ranked := ranking.Rank(candidates, of.Signal, measure)
	choose(n, ranked, p.NeedFor(of, &o))
	return n
}

// choose sets the first pod that may be evicted and helps, and the first places.
func choose(n *Next, ranked []ranking.Ranked, need eviction.Need) {
	tooLittle := ranking.TotalRelief(ranked) < need.Together
	ranking.BehindCache(ranked, need.Shortage, need.Least, need.Cache)
	var chosen, behind *decisionlog.Place
	for i := range ranked {
		r := &ranked[i]
		place := decisionlog.Place{Place: i + 1, Pod: r.Pod.Key(), UID: r.Pod.UID, Key: r.Key, Frees: int64(r.Relief.Amount), Open: r.Relief.Open}
		switch small := r.TooLittle(need.Least); {
		case r.Pod.Protection != signals.Unprotected:
			place.Passed = r.Pod.Protection.String()
		case tooLittle || small != "":
			place.Passed = cmp.Or(small, ranking.TooSmall)
		case chosen == nil:
			chosen = &place
		case behind == nil:
			behind = &place
		}
		if len(n.Ranking) < maxPlaces {
			n.Ranking = append(n.Ranking, Place{i + 1, place.Pod, placeText(place), place.Passed != ""})
		}
		if behind != nil && len(n.Ranking) == maxPlaces {
			break
		}
	}
	switch {
	case chosen == nil && len(ranked) == 0:
		n.Reason = "no pod is measured"
	case chosen == nil:
		n.Reason = "each pod is protected, or " + ranking.TooSmall
	default:
		n.Pod, n.Reason = chosen.Pod, placeText(*chosen)
	}
	if behind != nil {
		n.Instead = fmt.Sprintf("not %s instead: %s", behind.Pod, why.Difference(chosen, behind))
	}
}

// placeText describes a place by its figures, with bytes rounded down to 1Mi from 10Mi on. The order is that of the exact
// figures.
func placeText(p decisionlog.Place) string {
	if p.Key.Order == ranking.ByMemory || p.Key.Order == ranking.ByDisk {
		for _, n := range []*signals.Amount{&p.Key.Usage, &p.Key.Request} {
			if *n >= 10<<20 {
				*n -= *n % (1 << 20)
			}
		}
	}
	return why.PlaceText(&p)
}

// candidates returns the pods with their recorded usage, and why a ranking by it may differ from the agent's.
// It returns no pods if nothing is recorded of the signal's resource.
func (t *Tracker) candidates(of signals.Signal, measure signals.Storage) (all []signals.Candidate, approximate string) {
	switch of.Definition().Resource {
	case signals.EphemeralStorage:
		approximate = "by the last measured disk usage of whole pods: the parts on each filesystem are not recorded"
	case signals.PIDCount:
		approximate = "by threads: processes are not recorded"
	case signals.InodeCount:
		return nil, "inodes of pods are not recorded"
	}
	all = make([]signals.Candidate, 0, len(t.usage.Pods))
	for i := range t.usage.Pods {
		p := &t.usage.Pods[i]
		tasks := recording.Measured[signals.PIDs](p.Values[recording.Tasks])
		u := &signals.Usage{Memory: recording.Measured[signals.Bytes](p.Values[recording.WorkingSet]), MemoryRelief: recording.MemoryRelief(&p.Values), Processes: tasks, Tasks: tasks}
		if disk := recording.Measured[signals.Bytes](p.Values[recording.Disk]); disk.Known {
			u.EphemeralStorage = disk
			whole := signals.FilesystemUsage{Bytes: disk}
			if measure.Has(signals.Rootfs) {
				u.Containers = []signals.ContainerUsage{{Rootfs: whole}}
			} else {
				u.Containers = []signals.ContainerUsage{{Logs: whole}}
			}
		}
		if !u.Memory.Known && !u.MemoryRelief.Known && !tasks.Known && !u.EphemeralStorage.Known {
			u = nil // it has no cgroup: the agent ranks it as not measured
		}
		all = append(all, signals.Candidate{Pod: p.Pod, Usage: u})
	}
	return all, approximate
}
