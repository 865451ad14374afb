package core

import "time"

// Timer is when a pod is to be evicted.
func (f *Fleet) Timer(uid string) (at time.Time, ok bool) { return f.timers.At(uid) }
