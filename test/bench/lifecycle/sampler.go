package main

import "time"

// sampler measures the maximum time during which the machine did not run this process. A shorter
// delay of a measured
// program may not be its own.
type sampler struct {
	stop    chan struct{}
	maximum chan time.Duration
}

// interval is the time between two samples.
const interval = 5 * time.Millisecond

func newSampler() *sampler {
	w := &sampler{make(chan struct{}), make(chan time.Duration)}
	go w.sample()
	return w
}

func (w *sampler) sample() {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var maximum time.Duration
	for last := time.Now(); ; {
		select {
		case <-w.stop:
			w.maximum <- maximum
			return
		case <-tick.C:
		}
		now := time.Now()
		maximum = max(maximum, now.Sub(last)-interval)
		last = now
	}
}

// end returns the maximum interruption in seconds. It must be called once only.
func (w *sampler) end() float64 {
	close(w.stop)
	return (<-w.maximum).Seconds()
}
