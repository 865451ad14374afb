package app

import (
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// savedRestraint is the section of the state file with what evictions have led
// to.
const limiterSection = "restraint"

// openRestraint is a restraint that goes on where its predecessor ended: a restart
// gives no evictions back.
func (a *app) openLimiter(now time.Time) *limiter.Restraint {
	r := limiter.New(a.config.Restraint.Policy())
	if a.state == nil {
		return r
	}
	saved := loadSection[limiter.Saved](a.state, limiterSection, "the evictions of the last hour are forgotten", a.log)
	r.Restore(saved.At(a.state.Moment), now)
	return r
}

func (a *app) saveLimiter(s limiter.Saved) {
	if a.state != nil {
		a.state.Save(limiterSection, s.At(a.state.Stamp))
	}
}

// Holders implements agent.Holders.
func (n *node) Holders() []signals.Holder { return n.stats.Holders() }

// reportHold counts that evictions are held back, and tells the cluster where they
// have stopped to help.
func (r *reporter) reportLimited(d *agent.Decision) {
	r.metrics.EvictionsHeld(d.Held)
	if d.Decision == agent.Futile && r.events != nil && r.arming.armed() {
		r.events.Futile(d.Why + consumersText(d.Holders))
	}
}

// mostNamed is how many holders an event names.
const maxNamed = 3

// holdersText names the first holders for a person.
func consumersText(held []signals.Holder) (text string) {
	for i, h := range held[:min(len(held), maxNamed)] {
		text += [...]string{"; held by ", ", "}[min(i, 1)] + h.Name + " " + signals.Format(signals.Amount(h.Bytes), signals.UnitBytes)
	}
	return text
}
