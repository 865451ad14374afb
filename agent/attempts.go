package agent

import (
	"maps"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/backoff"
)

// Bounds for repeated attempts on one pod, within killsForget. A pod that is restarted
// every time, or does not die, must not block the next one. The same bound holds for soft
// evictions without an answer.
const (
	maxKills    = 3
	killsForget = 10 * time.Minute
)

// tries counts recent attempts on pods, by UID.
type tries map[string]tried

type tried struct {
	n    int
	last time.Time
}

// exhausted drops old attempts, and reports whether a pod has used up its attempts. Only the next
// attempt drops old ones, so that attempts that take longer than killsForget to fail count.
func (k tries) exhausted(pod *signals.Pod, now time.Time) bool {
	maps.DeleteFunc(k, func(_ string, t tried) bool { return now.Sub(t.last) >= killsForget })
	return k[pod.UID].n >= maxKills
}

// count adds an attempt.
func (k tries) count(pod *signals.Pod, now time.Time) {
	k[pod.UID] = tried{k[pod.UID].n + 1, now}
}

// refusalBackoff is the time without attempts on a pod whose soft eviction a PodDisruptionBudget
// never allowed, or no controller carried out. Other pods are tried in the meantime.
var refusalBackoff = backoff.Bounds{Min: time.Hour, Max: 24 * time.Hour}

// refusals are the pods that were given up on, by UID.
type refusals map[string]refusal

type refusal struct {
	n     int
	until time.Time
}

// count adds a refusal and extends the backoff.
func (r refusals) count(pod *signals.Pod, now time.Time) {
	maps.DeleteFunc(r, func(_ string, f refusal) bool { return now.Sub(f.until) >= refusalBackoff.Max })
	n := r[pod.UID].n + 1
	r[pod.UID] = refusal{n, now.Add(refusalBackoff.After(n))}
}
