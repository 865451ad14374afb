package confirm

import "time"

// An outage is what is known of times in which the API server could not be
// reached. The zero value is that of none.
type outage struct {
	on     bool
	floor  time.Time // nobody falls silent before, and no read from before counts
	untold bool      // the floor was not told yet
	heard  time.Time // our own watch delivered something
}

// Unreachable takes in that the API server cannot be reached: a list, a watch or
// the lease of our own election failed. It is to be called as long as that is so.
func (j *Judge) Unreachable(now time.Time) {
	j.now = now
	j.outage.on = true
	if !j.policy.LiveReads {
		// Where all nodes are dead nothing would ever say that it is over.
		j.recovered(now)
	}
}

// Sees reports whether what is observed can be relied upon: not during an outage,
// nor until everybody had the time to show himself that he has after it. from is
// when that is over; zero: nobody knows.
func (j *Judge) Sees(now time.Time) (is bool, from time.Time) {
	switch {
	case j.outage.on:
		return false, time.Time{}
	case j.outage.floor.After(now):
		return false, j.outage.floor
	}
	return true, time.Time{}
}

// reached says what an answer tells of the API server.
func (j *Judge) reached(a Answer, began, now time.Time) {
	switch {
	case a != Failed && j.outage.on:
		j.recovered(now)
	case a == Failed && !j.outage.heard.After(began):
		j.outage.on = true
	}
}

// recovered ends an outage.
func (j *Judge) recovered(now time.Time) {
	j.outage.on, j.outage.untold = false, true
	j.outage.floor = now.Add(j.policy.Outage)
	j.storm.run = 0
}

// tell is the floor, once.
func (o *outage) tell() time.Time {
	if !o.untold {
		return time.Time{}
	}
	o.untold = false
	return o.floor
}
