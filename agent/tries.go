package agent

import (
	"maps"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// The same pod is killed no more often than this: one that is started again
// every time, or does not die, does not keep the next pod from being tried. Nor is
// it asked to end more often where nobody sees to that.
const (
	maxKills    = 3
	killsForget = 10 * time.Minute
)

// tries counts what was lately done to pods, by UID.
type tries map[string]tried

type tried struct {
	n    int
	last time.Time
}

// exhausted forgets what was done long ago, and reports whether a pod has had its
// tries. Only who is about to try forgets: what takes longer than that to fail
// counts all the same.
func (k tries) exhausted(pod *signals.Pod, now time.Time) bool {
	maps.DeleteFunc(k, func(_ string, t tried) bool { return now.Sub(t.last) >= killsForget })
	return k[pod.UID].n >= maxKills
}

// count notes one more.
func (k tries) count(pod *signals.Pod, now time.Time) {
	k[pod.UID] = tried{k[pod.UID].n + 1, now}
}

// A pod that was given up on, because a budget never allowed its soft eviction or no
// controller acted on it, is asked for again after firstRefusal, doubled each time up
// to longestRefusal: other pods are asked meanwhile.
const (
	firstRefusal = time.Hour
	maxRefusal   = 24 * time.Hour
)

// refusals are the pods that were given up on, by UID.
type refusals map[string]refusal

type refusal struct {
	n     int
	until time.Time
}

// count notes that a pod was given up on.
func (r refusals) count(pod *signals.Pod, now time.Time) {
	maps.DeleteFunc(r, func(_ string, f refusal) bool { return now.Sub(f.until) >= maxRefusal })
	n := r[pod.UID].n + 1
	wait := maxRefusal
	if doublings := n - 1; doublings < 8 {
		wait = min(firstRefusal<<doublings, maxRefusal)
	}
	r[pod.UID] = refusal{n, now.Add(wait)}
}
