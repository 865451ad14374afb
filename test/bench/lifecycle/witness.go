package main

import "time"

// A witness knows how long the machine has not let this process run: whoever was
// late by less may be innocent.
type witness struct {
	stop    chan struct{}
	longest chan time.Duration
}

// glance is how often a witness looks whether it still runs.
const glance = 5 * time.Millisecond

func newWitness() *witness {
	w := &witness{make(chan struct{}), make(chan time.Duration)}
	go w.look()
	return w
}

func (w *witness) look() {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	var longest time.Duration
	for last := time.Now(); ; {
		select {
		case <-w.stop:
			w.longest <- longest
			return
		case <-tick.C:
		}
		now := time.Now()
		longest = max(longest, now.Sub(last)-glance)
		last = now
	}
}

// end is the longest time that it was held up, in seconds. It is called once.
func (w *witness) end() float64 {
	close(w.stop)
	return (<-w.longest).Seconds()
}
