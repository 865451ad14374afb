package app

import (
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// savedRestraint is the section of the state file with what evictions have led
// to.
const savedRestraint = "restraint"

// openRestraint is a restraint that goes on where its predecessor ended: a restart
// gives no evictions back.
func (p *program) openRestraint(now time.Time) *limiter.Restraint {
	r := limiter.New(p.config.Restraint.Policy())
	if p.state == nil {
		return r
	}
	saved := sectionOf[limiter.Saved](p.state, savedRestraint, "the evictions of the last hour are forgotten", p.log)
	r.Restore(saved.At(p.state.Moment), now)
	return r
}

func (p *program) saveRestraint(s limiter.Saved) {
	if p.state != nil {
		p.state.Save(savedRestraint, s.At(p.state.Stamp))
	}
}

// Holders implements agent.Holders.
func (n *node) Holders() []signals.Holder { return n.stats.Holders() }

// reportHold counts that evictions are held back, and tells the cluster where they
// have stopped to help.
func (r *reporter) reportHold(d *agent.Decision) {
	r.metrics.EvictionsHeld(d.Held)
	if d.Decision == agent.Futile && r.events != nil && r.safety.acts() {
		r.events.Futile(d.Why + holdersText(d.Holders))
	}
}

// mostNamed is how many holders an event names.
const mostNamed = 3

// holdersText names the first holders for a person.
func holdersText(held []signals.Holder) (text string) {
	for i, h := range held[:min(len(held), mostNamed)] {
		text += [...]string{"; held by ", ", "}[min(i, 1)] + h.Name + " " + signals.Format(signals.Amount(h.Bytes), signals.UnitBytes)
	}
	return text
}
