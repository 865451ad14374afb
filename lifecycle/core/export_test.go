package core

import "time"

// Timer returns the time of a pod's scheduled eviction.
func (f *Fleet) Timer(uid string) (at time.Time, ok bool) { return f.timers.At(uid) }
