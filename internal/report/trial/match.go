package trial

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// The rules. docs/reference/recording.md has them for operators.
//
//   - The window of a decision begins before its first time and ends after its last one, both by the option.
//   - An eviction by another program is that of a pod with the reason Evicted, without an armed decision about it
//     before. It is known as one only if the checks before it are recorded.
//   - The same pod: the UID and the resource are equal, and the two times touch. Each eviction has one such decision.
//   - Another pod: the resource is equal, and the times touch. A decision has one such eviction at most, and an
//     eviction is that of one decision at most. So two decisions never agree with one eviction.
//   - Nor does one decision stand for two pods: one that agrees about its pod explains no other eviction. And one of
//     two pods had to be there when the other one was chosen.
//   - An OOM kill concerns decisions for memory, from the time that a kill takes until the end of their window.
//   - Every other conclusion needs records of the whole window: a gap makes it unknown.

// otherEviction is an eviction by another program, and its match.
type otherEviction struct {
	*departure
	resource string
	outcome  Outcome
	reason   string
	decision *decision
}

// waits reports whether Plimsoll's checks before an eviction for memory left the threshold to the next periodic check.
func (e *otherEviction) waits() bool {
	return e.resource == string(signals.Memory) && !e.waited.to.IsZero()
}

// whyWaited explains that Plimsoll's checks waited.
func (e *otherEviction) whyWaited() string {
	from, to := clock(e.waited.from), clock(e.waited.to)
	when := fmt.Sprintf("from %s to %s", from, to)
	if from == to {
		when = "at " + from
	}
	return fmt.Sprintf("Memory was below a threshold %s. Exhaustion was not imminent, and no periodic check of Plimsoll was due.", when)
}

func (e *otherEviction) asOther() *Other { return &Other{e.to, e.pod, printable(e.uid), e.place} }

func (d *decision) asOther() *Other { return &Other{d.at, d.pod, printable(d.uid), d.place} }

// window returns the time in which the act of another counts as one for the same pressure.
func (d *decision) window(w time.Duration) span { return span{d.at, d.last}.around(w) }

func (d *decision) set(o Outcome, reason string) { d.outcome, d.reason = o, reason }

// matching matches the facts of a node.
type matching struct {
	*node
	others []*otherEviction
	left   map[string]*departure // the end of each pod, by UID
}

// match matches the facts of a node, which are concluded.
func match(n *node) *matching {
	m := &matching{node: n, left: map[string]*departure{}}
	m.findOthers()
	m.findPods()
	m.matchPods()
	for _, d := range m.decisions {
		m.decide(d)
	}
	for _, e := range m.others {
		m.explainEviction(e)
	}
	return m
}

// findOthers finds the evictions by other programs.
func (m *matching) findOthers() {
	own := map[string]time.Time{} // the first eviction of each pod by Plimsoll
	for _, d := range slices.Backward(m.decisions) {
		if !d.dryRun && !d.withdrawn {
			own[d.uid] = d.at
		}
	}
	for i := range m.departures {
		g := &m.departures[i]
		if m.left[g.uid] == nil {
			m.left[g.uid] = g
		}
		g.since = m.since[g.uid]
		if at, is := own[g.uid]; !g.end.Evicted() || is && !at.After(g.to) {
			continue
		}
		e := &otherEviction{departure: g, resource: resourceOfEnd(g.end)}
		switch {
		case !m.knowsChecks(span{slices.MaxFunc([]time.Time{g.from.Add(-m.window), g.since}, time.Time.Compare), g.to}):
			e.outcome, e.reason = Unknown, "Whether Plimsoll evicted it is not recorded."
		case e.resource == unknown:
			e.outcome, e.reason = Unknown, "The resource that it was evicted for is not recorded."
		}
		g.other = e
		m.others = append(m.others, e)
	}
}

// findPods sets the begin and the end of the pod of each decision.
func (m *matching) findPods() {
	next := map[string]*departure{}
	i := len(m.departures) - 1
	for _, d := range slices.Backward(m.decisions) {
		for ; i >= 0 && !m.departures[i].to.Before(d.at); i-- {
			next[m.departures[i].uid] = &m.departures[i]
		}
		d.since, d.left = m.since[d.uid], next[d.uid]
	}
}

// resourceOfEnd returns the resource that a pod was evicted for.
func resourceOfEnd(e recording.End) string {
	if r := e.Resource(); r != "" {
		return string(r)
	}
	if e == recording.EvictedForLimit {
		return limit
	}
	return unknown
}

// matchPods matches each eviction by another program with a decision in dry run about the same pod.
func (m *matching) matchPods() {
	dry := map[string][]*decision{}
	for _, d := range m.decisions {
		if d.dryRun {
			dry[d.uid] = append(dry[d.uid], d)
		}
	}
	for _, e := range m.others {
		var same *decision
		conflict := ""
		for _, d := range dry[e.uid] {
			switch {
			case !d.window(m.window).touches(e.span):
				continue
			case e.outcome == Unknown:
				d.conflict = "Another program may have evicted it too. " + e.reason
				continue
			case e.resource != d.resource:
				d.conflict = fmt.Sprintf("Another program evicted it for another resource: %s.", e.resource)
				conflict = fmt.Sprintf("Plimsoll decided to evict it for another resource: %s.", d.resource)
				continue
			}
			if same == nil || !d.at.After(e.to) {
				same = d
			}
		}
		switch {
		case same != nil:
			same.other = e.asOther()
			same.set(SamePod, "")
			e.outcome, e.decision = SamePod, same
		case conflict != "":
			e.outcome, e.reason = Unknown, conflict
		}
	}
}

// maxEndPause bounds the time between the end of a pod and its record.
const maxEndPause = 4 * time.Hour

// ends returns the departures that may touch a span.
func (m *matching) ends(s span) []departure {
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(m.departures, t, func(g departure, t time.Time) int { return g.to.Compare(t) })
		return i
	}
	return m.departures[at(s.from):at(s.to.Add(maxEndPause))]
}

// decide sets the outcome of a decision.
func (m *matching) decide(d *decision) {
	s := d.window(m.window)
	switch {
	case d.withdrawn:
		d.set(Withdrawn, "")
	case d.outcome != "":
	case d.conflict != "":
		d.set(Unknown, d.conflict)
	case d.resource == unknown:
		d.set(Unknown, "The resource of the decision is not recorded.")
	case !m.knowsEnds(s):
		d.set(Unknown, "The ends of pods are not recorded for the whole window.")
	case d.dryRun && m.left[d.uid] != nil && m.left[d.uid].touches(s):
		m.decideByOwnEnd(d, m.left[d.uid])
	default:
		m.decideByOthers(d, s)
	}
}

// decideByOwnEnd sets the outcome of a decision in dry run about a pod that left in its window, and is not its match.
func (m *matching) decideByOwnEnd(d *decision, g *departure) {
	if k := m.killFor(d); k != nil && k.uid == d.uid {
		m.setKilled(d, k)
		return
	}
	switch g.end {
	case recording.Deleted:
		d.set(Unknown, "The pod was deleted meanwhile.")
	case recording.Ended:
		d.set(Unknown, "The pod ended meanwhile.")
	case recording.EndUnknown:
		d.set(Unknown, "How the pod ended is not recorded.")
	default:
		if g.other != nil {
			d.set(Unknown, "Its eviction is the match of a later or an earlier decision.")
			return
		}
		d.set(Unknown, "Plimsoll was armed meanwhile, and evicted the pod.")
	}
}

// alternatives reports whether one of two pods was there when the other one was chosen, as far as is known.
func alternatives(d *decision, e *departure) bool {
	if !e.since.After(d.last) && !e.to.Before(d.at) {
		return true
	}
	return !d.since.After(e.to) && (d.left == nil || !d.left.to.Before(e.from))
}

// decideByOthers sets the outcome of a decision by what happened to other pods in its window.
func (m *matching) decideByOthers(d *decision, s span) {
	var another *otherEviction
	ends := m.ends(s)
	for i := range ends {
		g := &ends[i]
		if !g.touches(s) {
			continue
		}
		e := g.other
		switch {
		case g.end == recording.EndUnknown:
			d.set(Unknown, fmt.Sprintf("How %s ended is not recorded.", g.pod))
			return
		case e == nil:
		case e.outcome == Unknown && (e.resource == unknown || e.resource == d.resource):
			d.set(Unknown, fmt.Sprintf("Another program may have evicted %s for it. %s", e.pod, e.reason))
			return
		case e.resource == d.resource && d.resource != limit && e.decision == nil && another == nil && alternatives(d, g):
			another = e
		}
	}
	switch {
	case another != nil:
		another.decision = d
		d.other = another.asOther()
		d.set(AnotherPod, whyAnother(d, another))
	case d.resource == string(signals.Memory):
		m.decideByKills(d, s)
	default:
		d.set(PlimsollOnly, "")
	}
}

// decideByKills sets the outcome of a decision for memory by the kernel's OOM kills.
func (m *matching) decideByKills(d *decision, s span) {
	if k := m.killFor(d); k != nil {
		m.setKilled(d, k)
		return
	}
	if !m.knowsKills(s) {
		d.set(Unknown, "OOM kills of the kernel are not counted for the whole window.")
		return
	}
	own := ""
	for i := range m.kills {
		k := &m.kills[i]
		switch {
		case !k.touches(span{d.at, s.to}):
		case !k.ofPod() && !k.ofNode():
			d.set(Unknown, "The limit of an OOM kill in the window is not recorded.")
			return
		case k.ofPod() && k.uid == d.uid:
			own = fmt.Sprintf("The kernel killed a process of the pod at a limit of its own at %s.", clock(k.to))
		}
	}
	d.set(PlimsollOnly, own)
}

// clock returns a time of day.
func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

// follows reports whether an OOM kill is in the window of a decision for memory, and so late that an eviction could
// have been complete.
func (m *matching) follows(k *kill, d *decision) bool {
	return d.resource == string(signals.Memory) && !d.withdrawn && k.ofNode() && !k.to.Before(d.at.Add(eviction.ReactionTime)) && !k.to.After(d.last.Add(m.window))
}

// killFor returns the first OOM kill that follows a decision; nil without one.
func (m *matching) killFor(d *decision) *kill {
	for i := range m.kills {
		if m.follows(&m.kills[i], d) {
			return &m.kills[i]
		}
	}
	return nil
}

func (m *matching) setKilled(d *decision, k *kill) {
	d.other = &Other{k.to, k.pod, printable(k.uid), k.place}
	d.set(OOMKill, "")
}

// explainEviction sets the outcome of an eviction by another program that is not that of a decision's pod.
func (m *matching) explainEviction(e *otherEviction) {
	if e.outcome != "" {
		return
	}
	s := e.around(m.window)
	var before, after *decision // the nearest ones that do not explain it
	for _, d := range m.decisions {
		switch {
		case e.resource == limit || d.resource != e.resource || d.withdrawn || !(span{d.at, d.last}).touches(s):
		case d.outcome != SamePod && alternatives(d, e.departure):
			e.decision = cmp.Or(e.decision, d)
		case !d.at.After(e.to):
			before = d
		default:
			after = cmp.Or(after, d)
		}
	}
	switch {
	case e.decision != nil:
		e.outcome, e.reason = AnotherPod, whyAnother(e.decision, e)
	case !m.knowsChecks(s):
		e.outcome, e.reason = Unknown, "Checks are not recorded for the whole window."
	default:
		e.outcome, e.reason = OthersOnly, m.whyNotDecided(e, s, before, after)
	}
}

// whyNotDecided explains that no decision was about an eviction by another program. Before and after are the nearest ones
// about the resource.
func (m *matching) whyNotDecided(e *otherEviction, s span, before, after *decision) string {
	refusal := m.lastRefusal(span{s.from, e.to}, e.resource, !e.waits())
	near := cmp.Or(before, after)
	switch {
	case refusal != nil && (before == nil || refusal.at.After(before.last)) && (!e.waits() || !refusal.at.Before(e.waited.from)):
		return refusal.sentence()
	case e.waits() && (before == nil || before.last.Before(e.waited.to)):
		return e.whyWaited()
	case near == nil:
		return m.lastRefusal(s, e.resource, true).sentence()
	case near.outcome == SamePod:
		return fmt.Sprintf("Plimsoll decided at %s about %s, which others evicted too.", clock(near.at), near.pod)
	}
	return fmt.Sprintf("Plimsoll decided at %s about %s. The two pods were not there at the same time.", clock(near.at), near.pod)
}
