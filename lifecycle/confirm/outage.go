package confirm

import "time"

// An outage is what is known of times in which the API server could not be
// reached. The zero value is that of none.
type outage struct {
	on         bool
	notBefore  time.Time // nobody falls silent before, and no read from before counts
	unreported bool      // the floor was not told yet
	heard      time.Time // our own watch delivered something
}

// Unreachable takes in that the API server cannot be reached: a list, a watch or
// the lease of our own election failed. It is to be called as long as that is so.
func (c *Checker) Unreachable(now time.Time) {
	c.now = now
	c.outage.on = true
	if !c.policy.LiveReads {
		// Where all nodes are dead nothing would ever say that it is over.
		c.recovered(now)
	}
}

// ViewCurrent reports whether what is observed can be relied upon: not during an outage,
// nor until everybody had the time to show himself that he has after it. from is
// when that is over; zero: nobody knows.
func (c *Checker) ViewCurrent(now time.Time) (is bool, from time.Time) {
	switch {
	case c.outage.on:
		return false, time.Time{}
	case c.outage.notBefore.After(now):
		return false, c.outage.notBefore
	}
	return true, time.Time{}
}

// reached says what an answer tells of the API server.
func (c *Checker) reached(a Answer, began, now time.Time) {
	switch {
	case a != Failed && c.outage.on:
		c.recovered(now)
	case a == Failed && !c.outage.heard.After(began):
		c.outage.on = true
	}
}

// recovered ends an outage.
func (c *Checker) recovered(now time.Time) {
	c.outage.on, c.outage.unreported = false, true
	c.outage.notBefore = now.Add(c.policy.Outage)
	c.storm.confirmedInRow = 0
}

// takeNotBefore is the floor, once.
func (o *outage) takeNotBefore() time.Time {
	if !o.unreported {
		return time.Time{}
	}
	o.unreported = false
	return o.notBefore
}
