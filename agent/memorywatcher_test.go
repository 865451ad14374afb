package agent

import (
	"testing"
	"time"
)

// With a prepared thread, with one without real-time permission, and without a thread.
func TestLookout_LooksUntilTheWorkIsDone(t *testing.T) {
	granted, _ := TakeThread() // without permission it is tested as well
	for name, thread := range map[string]*Thread{"granted": granted, "not granted": {}} {
		t.Run(name, func(t *testing.T) {
			l, err := newMemoryWatcher(thread)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for range 3 {
				tryLookout(t, l)
			}
		})
	}
	t.Run("none", func(t *testing.T) { tryLookout(t, nil) })
}

// tryLookout runs work that ends with the third check, and fails on any check after it.
func tryLookout(t *testing.T, l *memoryWatcher) {
	t.Helper()
	looks, third := 0, make(chan struct{})
	before := time.Now()
	l.during(func() { <-third }, func(now time.Time) {
		if now.Before(before) {
			t.Errorf("a look at %v after one at %v", now, before)
		}
		before = now
		if looks++; looks == 3 {
			close(third)
		}
	})
	after := looks
	l.during(func() {}, func(time.Time) {})
	if looks != after || looks < 3 {
		t.Errorf("%d looks, %d when the work was done", looks, after)
	}
}
