package cluster

import "time"

// Poll waits for a condition without an event by polling it every 50 ms, less often on an emulated
// machine. It fails the test if the condition is not met in time.
func Poll(t TB, within time.Duration, what string, so func() bool) {
	t.Helper()
	late, tick := time.After(within), time.NewTicker(rarely(50*time.Millisecond))
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
