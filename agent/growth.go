package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// growthWindow is the minimum time between two stored measurements. The earlier one is the base of
// growth.
const growthWindow = 10 * time.Second

// maxGrowthBase is the maximum age of the earlier one while anything is left. Nothing is measured while
// evictions are paused. The pods that began and ended meanwhile would count as growth.
const maxGrowthBase = 5 * time.Minute

// growth stores measurements of the pods for each signal while a threshold is met, and compares
// later ones with them. A nil growth stores nothing. It does not allocate once all pods are known.
type growth struct {
	of   [signals.Count]measurements
	used bool
}

// measurements are the stored ones of a signal. Growth is the increase since the older one, or since
// the newer one as long as there is no other.
type measurements struct{ older, newer measurement }

// measurement is the relief of all pods at one time.
type measurement struct {
	at    time.Time                 // zero: none
	left  signals.Amount            // available; of memory the headroom
	pods  map[string]signals.Amount // by UID; -1 if it was not measured completely
	total signals.Amount            // of the measured pods
}

// PodGrowth is how the ranked pods grew since an earlier measurement. All but Imminent is zero
// without one.
type PodGrowth struct {
	Most *signals.Pod   // the pod that grew most, which may be protected; nil if none grew
	By   signals.Amount // its growth
	Over time.Duration  // since the earlier measurement
	// Least is the growth from which on a pod helps while exhaustion is Imminent, whatever it holds. It
	// is 0 if none helps for its growth.
	Least    signals.Amount
	Imminent bool
}

// noteGrowth sets the growth of the ranked pods, and stores their relief as the base of later ones.
func (c *Checker) noteGrowth(o *Outcome) {
	if c.growth == nil {
		return
	}
	sig, now := o.Verdict.Target.Signal, o.Snapshot.At
	left := c.observed(o, sig).Headroom()
	var decrease signals.Amount
	if base := c.growth.of[sig].base(now, left); base != nil {
		decrease = base.left.Plus(-left)
		g := base.compare(o.Ranking, left)
		o.Growth = mostGrown(o.Ranking)
		o.Growth.Over, o.Growth.Least = now.Sub(base.at), c.Machine.Policy().LeastGrowth(sig, g)
	}
	o.Growth.Imminent = c.exhaustionImminent(o, left, decrease)
	if next := c.growth.next(sig, now, left); next != nil {
		c.Trace.noteChange()
		for i := range o.Ranking {
			next.add(o.Ranking[i].Pod.UID, o.Ranking[i].Relief)
		}
	}
}

// noteCandidates stores measurements of memory without a ranking, as the base of later ones.
func (c *Checker) noteCandidates(s *signals.Snapshot, of signals.Set, candidates []signals.Candidate) {
	stored := false
	for sig := range signals.All {
		if c.growth == nil || !of.Has(sig) || !sig.OfMemory() {
			continue
		}
		if next := c.growth.next(sig, s.At, s.Node[sig].Headroom()); next != nil {
			stored = true
			for _, k := range candidates {
				next.add(k.Pod.UID, ranking.ReliefOf(k, sig, 0))
			}
		}
	}
	if stored {
		c.Trace.noteBase(candidates)
	}
}

// exhaustionImminent reports whether the target's resource is about to be used up: memory by the
// rule of early checks. Disks and PIDs are observed by periodic checks only. They are about to be
// used up if nothing is left, or if the available amount fell by as much as is left since the base of
// growth. The same time later nothing may be left. What pods that ended in between held does not count:
// a pod that is created again would appear as one that fills the node.
func (c *Checker) exhaustionImminent(o *Outcome, left, decrease signals.Amount) bool {
	t := o.Verdict.Target
	if t.Signal.OfMemory() {
		return t.Hard() && c.Machine.Imminent(o.Snapshot) != 0
	}
	return left <= 0 || decrease >= left
}

// base returns the measurement to compare with, or nil if there is none yet.
func (m *measurements) base(now time.Time, left signals.Amount) *measurement {
	for _, b := range [...]*measurement{&m.older, &m.newer} {
		age := now.Sub(b.at)
		if !b.at.IsZero() && age >= minBase && (left <= 0 || age <= maxGrowthBase) {
			return b
		}
	}
	return nil
}

// next returns the measurement to fill, or nil if none is stored now. While nothing is left, pods
// cannot grow, so the measurements from before remain.
func (g *growth) next(sig signals.Signal, now time.Time, left signals.Amount) *measurement {
	m := &g.of[sig]
	switch {
	case m.newer.at.IsZero():
	case left <= 0, now.Sub(m.newer.at) < growthWindow:
		return nil
	default:
		m.older, m.newer = m.newer, m.older
	}
	g.used = true
	pods := m.newer.pods
	if pods == nil {
		pods = map[string]signals.Amount{}
	}
	clear(pods)
	m.newer = measurement{at: now, left: left, pods: pods}
	return &m.newer
}

// add adds a pod to a measurement.
func (m *measurement) add(uid string, r ranking.Relief) {
	amount := signals.Amount(-1)
	if r.Known && r.Open == "" {
		amount = r.Amount
		m.total = m.total.Plus(amount)
	}
	m.pods[uid] = amount
}

// compare sets the growth of the ranked pods. A new pod grew by all it holds. A pod without a
// complete measurement at both times did not grow. What ended pods held counts as used since.
func (m *measurement) compare(ranked []ranking.Ranked, left signals.Amount) (g eviction.Growth) {
	ended := m.total
	for i := range ranked {
		r := &ranked[i]
		before, known := m.pods[r.Pod.UID]
		if before > 0 {
			ended -= before
		}
		if r.Growth = 0; known && before < 0 || !r.Relief.Known || r.Relief.Open != "" {
			continue
		}
		if r.Growth = r.Relief.Amount - max(before, 0); r.Growth > 0 && r.Pod.Protection == signals.Unprotected {
			g.Together = g.Together.Plus(r.Growth)
			g.Largest = max(g.Largest, r.Growth)
		}
	}
	g.Fell = m.left.Plus(-left).Plus(max(ended, 0))
	return g
}

// mostGrown returns the pod that grew most, the first in the ranking of several.
func mostGrown(ranked []ranking.Ranked) (g PodGrowth) {
	for i := range ranked {
		if r := &ranked[i]; r.Growth > g.By {
			g.Most, g.By = r.Pod, r.Growth
		}
	}
	return g
}

// forget drops the measurements of signals without a met threshold, after a periodic check. An unknown
// signal keeps them: its threshold is neither met nor unmet.
func (g *growth) forget(v *eviction.Verdict) {
	if g == nil || !g.used {
		return
	}
	g.used = false
	for sig := range signals.All {
		m := &g.of[sig]
		if !v.GracePassed.Has(sig) && !v.Unknown.Has(sig) {
			m.older.at, m.newer.at = time.Time{}, time.Time{}
		}
		g.used = g.used || !m.newer.at.IsZero()
	}
}

// isUsed reports whether any measurement is stored.
func (g *growth) isUsed() bool { return g != nil && g.used }

// grows reports whether a pod that may be evicted helps for its growth.
func (o *Outcome) grows(r *ranking.Ranked) bool {
	g := &o.Growth
	return g.Imminent && g.Least > 0 && r.Growth >= g.Least && r.Pod.Protection == signals.Unprotected
}

// mayGrow reports whether the next check may find that a pod of memory helps for its growth, though
// this one has not: it has a base of growth then, or a rate by which exhaustion is imminent.
func (o *Outcome) mayGrow() bool {
	g := &o.Growth
	return o.Verdict.Target.Signal.OfMemory() && (g.Over == 0 || !g.Imminent && g.Least > 0)
}

// setGrowth sets the keys of the pod that grew most.
func setGrowth(d *Decision, o *Outcome) {
	if o.Growth.Most == nil {
		return
	}
	d.GrewMost, d.GrewBy, d.GrewOver = o.Growth.Most.Key(), int64(o.Growth.By), millis(o.Growth.Over)
}
