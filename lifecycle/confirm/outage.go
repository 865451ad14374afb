package confirm

import "time"

// An outage is what is known of times without an API server. The zero value has none.
type outage struct {
	on           bool
	notBefore    time.Time // no grace period ends earlier, and no earlier read counts
	unreported   bool      // notBefore was not returned yet
	lastDelivery time.Time // latest delivery of our own watch
}

// Unreachable handles an API server that cannot be reached: a list, a watch or the
// lease of our own election failed. It is to be called as long as that lasts.
func (c *Checker) Unreachable(now time.Time) {
	c.now = now
	c.outage.on = true
	if !c.policy.LiveReads {
		// If all nodes are lost nothing would ever show the end.
		c.recovered(now)
	}
}

// ViewCurrent reports whether observations can be relied on: not during an outage, nor
// before every node has had time to renew after it. from is when that is over; zero if
// not known.
func (c *Checker) ViewCurrent(now time.Time) (is bool, from time.Time) {
	switch {
	case c.outage.on:
		return false, time.Time{}
	case c.outage.notBefore.After(now):
		return false, c.outage.notBefore
	}
	return true, time.Time{}
}

// reached derives from an answer whether the API server can be reached.
func (c *Checker) reached(a Answer, began, now time.Time) {
	switch {
	case a != Failed && c.outage.on:
		c.recovered(now)
	case a == Failed && !c.outage.lastDelivery.After(began):
		c.outage.on = true
	}
}

// recovered ends an outage.
func (c *Checker) recovered(now time.Time) {
	c.outage.on, c.outage.unreported = false, true
	c.outage.notBefore = now.Add(c.policy.Outage)
	c.massFailure.confirmedInRow = 0
}

// takeNotBefore returns notBefore, once after each outage.
func (o *outage) takeNotBefore() time.Time {
	if !o.unreported {
		return time.Time{}
	}
	o.unreported = false
	return o.notBefore
}
