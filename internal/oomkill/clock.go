package oomkill

import "time"

// clockPeriod is the time after which an older record no longer shows the offset of the log's clock. The
// rates of both clocks differ by less than 100 ppm, which is 60 ms in two periods.
const clockPeriod = 5 * time.Minute

// Clock determines when records were written. The log has a clock of its own, so that only a comparison of
// records shows that one was read late: after a flood of records, or while the node has no memory. The
// zero value is ready for use.
type Clock struct {
	epoch, began time.Time // the first reading, and the start of the present period
	// least is the offset of the log's clock, by the most prompt record of the previous period and of
	// the present one.
	least [2]time.Duration
}

// Written returns the time at which a record was written that was read now. It is at most now, and too
// late if all records of the last minutes were read late.
func (c *Clock) Written(at time.Duration, now time.Time) time.Time {
	if c.epoch.IsZero() {
		c.epoch = now
	}
	offset := now.Sub(c.epoch) - at
	switch age := now.Sub(c.began); {
	case c.began.IsZero() || age >= 2*clockPeriod:
		c.began, c.least = now, [2]time.Duration{offset, offset}
	case age >= clockPeriod:
		c.began, c.least = now, [2]time.Duration{c.least[1], offset}
	}
	c.least[1] = min(c.least[1], offset)
	return now.Add(min(c.least[0], c.least[1]) - offset)
}
