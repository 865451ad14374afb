package core

import "time"

// Timer returns the scheduled eviction of a pod.
func (f *Fleet) Timer(uid string) (at time.Time, ok bool) { return f.timers.At(uid) }
