package agent

import (
	"fmt"

	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// assess sets what evictions for the target have to free, and what the ranked pods hold of it.
func (c *Checker) assess(o *Outcome) {
	t := o.Verdict.Target
	o.Need = c.Machine.Policy().NeedFor(t, c.observed(o, t.Signal))
	o.Relief = ranking.TotalRelief(o.Ranking)
	if !o.Growth.Imminent { // by memory without page cache: then page cache is not the cause
		o.CachePod, o.CacheAmount = ranking.BehindCache(o.Ranking, o.Need.Shortage, o.Need.Least, o.Need.Cache)
	}
}

// spare reports whether the end of a pod that may be evicted would not help. The first such pod is
// the kubelet's choice, unless the eviction of a pod before it is limited.
func (c *Checker) spare(o *Outcome, r *ranking.Ranked) bool {
	if o.grows(r) || !o.tooLittle() && !o.tooSmall(r) {
		return false
	}
	if o.Spared++; o.Spared == 1 && !c.limited {
		o.KubeletsPod = r.Pod
	}
	return true
}

// tooLittle reports whether the pods that may be evicted can not relieve the target together.
func (o *Outcome) tooLittle() bool { return o.Relief < o.Need.Together }

// tooSmall reports whether a pod may be evicted, and its end alone would free too little to help. A
// pod that grows helps nevertheless.
func (o *Outcome) tooSmall(r *ranking.Ranked) bool {
	return r.Pod.Protection == signals.Unprotected && r.TooLittle(o.Need.Least) != "" && !o.grows(r)
}

// PlaceReason describes why a pod has its place in the ranking, what its end frees if that explains
// more, and why it is passed over.
func (o *Outcome) PlaceReason(r *ranking.Ranked) string {
	text, least := r.Key.Reason(), o.Need.Least
	if differs := (r.Key.Usage >= least) != (r.Relief.Amount >= least); differs && r.Key.Order != ranking.ByPIDs {
		text += ", frees " + o.amount(r.Relief.Amount) // threads are in the reason already
	}
	if r.Relief.Open != r.Key.Incomplete {
		text += ", may free any amount (" + r.Relief.Open + ")"
	}
	switch {
	case o.tooSmall(r):
		text += ", " + r.TooLittle(least)
	case o.grows(r):
		text += ", grew by " + o.amount(r.Growth)
	}
	return text
}

// NoneHelps reports whether no pod was evicted because the end of none would help.
func (o *Outcome) NoneHelps() bool {
	return o.Spared > 0 && o.Evicted == nil && !o.Recovered && len(o.Failed) == 0 && o.Limit.By == limiter.None
}

// SpareReason explains why pods were passed over. It returns an empty string if none was.
func (o *Outcome) SpareReason() string {
	if o.Spared == 0 {
		return ""
	}
	missing, least := o.amount(o.Need.Shortage), o.amount(o.Need.Least)
	var text string
	switch {
	case o.tooLittle():
		text = fmt.Sprintf("%s missing, and all pods that may be evicted hold %s together: no pod is evicted", missing, o.amount(o.Relief))
	case o.CachePod != nil:
		text = fmt.Sprintf("%s missing, which is page cache of %s: pods behind it that free less than %s are passed over", missing, o.CachePod.Key(), o.amount(o.CacheAmount))
	case o.NoneHelps():
		text = fmt.Sprintf("%s missing, and no pod that may be evicted holds %s of it: no pod is evicted", missing, least)
	default:
		text = fmt.Sprintf("%s missing, and pods that hold less than %s of it are passed over", missing, least)
	}
	if o.KubeletsPod != nil {
		text += fmt.Sprintf("; the kubelet would evict %s", o.KubeletsPod.Key())
	}
	return text
}

// amount formats an amount of the target's signal. Bytes are rounded up, to 1Mi from 1Gi on and to
// 1Ki from 1Mi on.
func (o *Outcome) amount(a signals.Amount) string {
	switch unit := o.Verdict.Target.Signal.Definition().Unit; unit {
	case signals.UnitInodes:
		return signals.Format(a, unit) + " inodes"
	case signals.UnitPIDs:
		return signals.Format(a, unit) + " PIDs"
	}
	for _, step := range [...]signals.Amount{1 << 20, 1 << 10} {
		if rest := a % step; a >= step<<10 && rest > 0 {
			a = a.Plus(step - rest)
		}
	}
	return signals.Format(a, signals.UnitBytes)
}

// describeChoice sets the keys of the pods that were passed over, in a decision about a pod or about
// none.
func (a *Agent) describeChoice(d *Decision, o *Outcome) {
	switch d.Decision {
	case Evicted, WouldEvict, SoftEvicting, Failed, Limited, NoneHelps:
	default:
		return
	}
	if d.Spared = o.Spared; o.KubeletsPod != nil {
		d.KubeletWouldEvict = o.KubeletsPod.Key()
	}
	setGrowth(d, o)
	if d.Decision == NoneHelps {
		d.Reason += "; " + o.SpareReason()
	}
}
