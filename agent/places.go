package agent

import (
	"cmp"
	"slices"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/ranking"
)

// maxFirstPlaces is the maximum number of pods before the evicted one in the record of a choice: the
// first of the ranking. After it follow the next one and the one that would have been evicted.
const maxFirstPlaces = 3

// choice returns why the evicted pod was chosen, with the figures of the ranking.
func (o *Outcome) choice() *decisionlog.Choice {
	c := &decisionlog.Choice{Cause: o.Evicted.Cause}
	if o.EndedByStorageLimit { // the ranking, if there is one, is that of a threshold
		return c
	}
	c.Deleted = o.endedDeleted
	c.Pods, c.Shortage, c.Least = len(o.Ranking), int64(o.Need.Shortage), int64(o.Need.Least)
	c.Kubelet = kubeletsChoice(o.Ranking)
	chosen := 0
	for chosen < len(o.Ranking) && o.Ranking[chosen].Pod != o.Evicted.Pod {
		chosen++
	}
	c.Limited = !o.endedDeleted && slices.ContainsFunc(o.Ranking[:chosen], func(r ranking.Ranked) bool { return o.passedOver(&r) == "" })
	next := chosen + 1
	for next < len(o.Ranking) && o.passedOver(&o.Ranking[next]) != "" {
		next++
	}
	for i := range o.Ranking {
		if i < min(chosen, maxFirstPlaces) || i == chosen || i == chosen+1 || i == next {
			c.Places = append(c.Places, o.placeOf(i, chosen))
		}
	}
	return c
}

// limitedText is why a pod before the evicted one was passed over, if nothing of the pod is the reason.
const limitedText = "a limit on evictions"

// placeOf returns a place of the ranking, for the record of an eviction of the pod at another one.
func (o *Outcome) placeOf(i, chosen int) decisionlog.Place {
	r := &o.Ranking[i]
	p := decisionlog.Place{Place: i + 1, Pod: r.Pod.Key(), UID: r.Pod.UID, Key: r.Key,
		Frees: int64(r.Relief.Amount), Open: r.Relief.Open, Grew: int64(max(r.Growth, 0))}
	if i == chosen {
		return p
	}
	p.Passed = o.passedOver(r)
	if i < chosen && p.Passed == "" && !o.endedDeleted {
		p.Passed = limitedText
	}
	return p
}

// passedOver returns why a pod of the ranking is not evicted, as far as the pod itself is the reason.
func (o *Outcome) passedOver(r *ranking.Ranked) string {
	switch {
	case r.Pod.Protection != signals.Unprotected:
		return r.Pod.Protection.String()
	case o.hasFailed(r.Pod):
		return "could not be ended"
	case !o.grows(r) && (o.tooLittle() || o.tooSmall(r)):
		return cmp.Or(r.TooLittle(o.Need.Least), ranking.TooSmall)
	}
	return ""
}

// kubeletsChoice returns the pod that the kubelet would evict, or an empty name. It protects static,
// mirror and critical pods alone, and knows neither the end of the order nor eviction priorities.
func kubeletsChoice(ranked []ranking.Ranked) string {
	var first ranking.Ranked
	for i := range ranked {
		r := ranked[i]
		switch r.Pod.Protection {
		case signals.Static, signals.Mirror, signals.Critical:
			continue
		}
		r.Key.Last, r.Key.EvictionPriority = false, 0
		if first.Pod == nil || ranking.Before(&r, &first) {
			first = r
		}
	}
	if first.Pod == nil {
		return ""
	}
	return first.Pod.Key()
}
