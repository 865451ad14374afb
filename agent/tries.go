package agent

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// The same pod is killed no more often than this: one that is started again
// every time, or does not die, does not keep the next pod from being tried.
const (
	mostKills   = 3
	killsForget = 10 * time.Minute
)

// kills counts how often pods were killed lately, by UID.
type kills map[string]killCount

type killCount struct {
	n    int
	last time.Time
}

// refuse says why a pod is not killed once more; nil if it may be.
func (k kills) refuse(pod *signal.Pod, now time.Time) error {
	c := k[pod.UID]
	if c.n < mostKills || now.Sub(c.last) >= killsForget {
		return nil
	}
	return fmt.Errorf("pod %s was killed %d times within %s and is still there: another one is tried", pod.Key(), c.n, killsForget)
}

// count notes a kill, and forgets those of long ago.
func (k kills) count(pod *signal.Pod, now time.Time) {
	for uid, c := range k {
		if now.Sub(c.last) >= killsForget {
			delete(k, uid)
		}
	}
	k[pod.UID] = killCount{k[pod.UID].n + 1, now}
}
