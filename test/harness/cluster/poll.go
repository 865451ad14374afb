package cluster

import "time"

// Poll waits until something is so that nobody tells, by asking twenty times a
// second. It ends the test if that is not so in time.
func Poll(t TB, within time.Duration, what string, so func() bool) {
	t.Helper()
	late, tick := time.After(within), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
