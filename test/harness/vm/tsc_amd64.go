package main

import "time"

// readTSC reads the time-stamp counter.
func readTSC() uint64

// tscSpan is the time over which the counter is measured. Its readings are certain to a microsecond.
const tscSpan = 50 * time.Millisecond

// tscKHz measures the frequency of this machine's time-stamp counter, which is that of the emulated one.
func tscKHz() int64 {
	from, first := stampTSC()
	<-time.After(tscSpan)
	to, last := stampTSC()
	return int64(float64(last-first) / to.Sub(from).Seconds() / 1000)
}

// stampTSC reads the clock and the counter at one moment: of several readings the one that took least time.
func stampTSC() (at time.Time, ticks uint64) {
	least := time.Hour
	for range 100 {
		before := time.Now()
		counter := readTSC()
		if took := time.Since(before); took < least {
			least, at, ticks = took, before.Add(took/2), counter
		}
	}
	return at, ticks
}
