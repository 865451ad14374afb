package agent

import (
	"testing"
	"time"
)

// With a thread that is kept ready, with one that may not be real time, and without.
func TestLookout_LooksUntilTheWorkIsDone(t *testing.T) {
	granted, _ := TakeThread() // what is not granted is tried as well
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

// tryLookout has work that ends with the third look, after which there is none.
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
