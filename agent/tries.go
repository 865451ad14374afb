package agent

import (
	"maps"
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// The same pod is killed no more often than this: one that is started again
// every time, or does not die, does not keep the next pod from being tried. Nor is
// it asked to end more often where nobody sees to that.
const (
	mostKills   = 3
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
func (k tries) exhausted(pod *signal.Pod, now time.Time) bool {
	maps.DeleteFunc(k, func(_ string, t tried) bool { return now.Sub(t.last) >= killsForget })
	return k[pod.UID].n >= mostKills
}

// count notes one more.
func (k tries) count(pod *signal.Pod, now time.Time) {
	k[pod.UID] = tried{k[pod.UID].n + 1, now}
}
