package main

import "time"

// witness measures how long the machine has not run this process. A shorter delay of a measured
// program may not be its own.
type witness struct {
	stop    chan struct{}
	longest chan time.Duration
}

// glance is the interval at which a witness checks that it still runs.
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

// end returns the longest interruption in seconds. It must be called once only.
func (w *witness) end() float64 {
	close(w.stop)
	return (<-w.longest).Seconds()
}
