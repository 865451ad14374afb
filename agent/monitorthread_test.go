package agent

import (
	"testing"
	"time"
)

// With a prepared thread, with one without real-time permission, and without a thread.
func TestMonitorThread_ChecksUntilWorkIsDone(t *testing.T) {
	granted, _ := TakeThread() // without permission it is tested as well
	for name, thread := range map[string]*Thread{"granted": granted, "not granted": {}} {
		t.Run(name, func(t *testing.T) {
			l, err := newMonitorThread(thread)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for range 3 {
				tryMonitorThread(t, l)
			}
		})
	}
	t.Run("none", func(t *testing.T) { tryMonitorThread(t, nil) })
}

// tryMonitorThread runs work that ends with the third check, and fails on any check after it.
func tryMonitorThread(t *testing.T, l *monitorThread) {
	t.Helper()
	checks, third := 0, make(chan struct{})
	before := time.Now()
	l.during(func() { <-third }, func(now time.Time) {
		if now.Before(before) {
			t.Errorf("a check at %v after one at %v", now, before)
		}
		before = now
		if checks++; checks == 3 {
			close(third)
		}
	})
	after := checks
	l.during(func() {}, func(time.Time) {})
	if checks != after || checks < 3 {
		t.Errorf("%d checks, %d when the work was done", checks, after)
	}
}
