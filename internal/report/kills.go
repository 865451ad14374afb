package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// unknown stands for what is not recorded, or not certain.
const unknown = "unknown"

// kill is an OOM kill of the kernel: a line of the decision log, or processes that only a counter has.
type kill struct {
	from, to   time.Time // equal if the time is known
	pod        string    // empty: outside of pods
	held, grew string    // what held most of the memory, and what grew most before
	text       string
	processes  int64
}

// podKills counts the processes of a pod that the kernel's OOM killer ended.
type podKills struct {
	name      string
	last      int64 // value of the counter, recording.Unknown before the first one
	processes int64
	from, to  time.Time
}

// departure is a pod that ended as evicted, without an eviction of the agent.
type departure struct {
	at  time.Time
	pod string
}

// addKill adds the line of an OOM kill.
func (r *reading) addKill(l *line, t time.Time) {
	n := max(l.Kills, 1)
	r.named = sum(r.named, n)
	if len(r.lineKills) < maxUIDs {
		r.lineKills[l.rawUID] = sum(r.lineKills[l.rawUID], n)
	}
	r.kills.add(kill{from: t, to: t, pod: l.Pod, held: cmp.Or(l.HeldMost, unknown), grew: cmp.Or(l.GrewMost, unknown), text: quote(l.Reason), processes: n})
}

// countKills compares the counters of a usage with those before.
func (r *reading) countKills(u *recording.Usage, t time.Time) {
	since := r.used
	r.used = t
	if n := u.Node[recording.NodeOOMKills]; n >= 0 {
		r.counted = max(r.counted, 0)
		if r.nodeKills >= 0 && n > r.nodeKills {
			r.counted = sum(r.counted, n-r.nodeKills)
		}
		r.nodeKills = n
	}
	for i := range u.Pods {
		p := &u.Pods[i]
		n := p.Values[recording.OOMKills]
		if n < 0 {
			continue
		}
		k := r.podKills[uidOf(p.Pod.UID)]
		if k == nil {
			if len(r.podKills) == maxUIDs {
				continue
			}
			k = &podKills{name: printableName(p.Pod.Key()), last: recording.Unknown}
			r.podKills[uidOf(p.Pod.UID)] = k
		}
		if k.last >= 0 && n > k.last {
			if k.processes == 0 {
				k.from = since
			}
			k.processes, k.to = sum(k.processes, n-k.last), t
		}
		k.last = n
	}
}

// concludeKills adds the kills that have no line: those that the counter of a pod shows, and the rest of
// the machine's counter, of which no pod is known.
func (r *reading) concludeKills() {
	var pods []kill
	for _, uid := range slices.Sorted(maps.Keys(r.podKills)) {
		k := r.podKills[uid]
		if n := k.processes - r.lineKills[uid]; n > 0 {
			r.named = sum(r.named, n)
			pods = append(pods, kill{from: k.from, to: k.to, pod: k.name, held: unknown, grew: unknown, processes: n,
				text: "The counter of the pod's cgroup shows it. Neither the limit that was met nor the memory of others at that moment is recorded."})
		}
	}
	slices.SortStableFunc(pods, func(a, b kill) int { return a.to.Compare(b.to) })
	for _, k := range pods {
		r.kills.add(k)
	}
	if n := r.counted - r.named; n > 0 {
		r.kills.add(kill{from: r.begin, to: r.end, pod: unknown, held: unknown, grew: unknown, processes: n,
			text: "The counter of the machine shows it. The killed processes are those of no pod, or of a pod that is not recorded."})
	}
}

// period returns the time of a kill.
func (i *Incident) period(k *kill) string {
	if k.from.Equal(k.to) || k.from.IsZero() {
		return i.moment(k.to)
	}
	return fmt.Sprintf("%s to %s", i.clock(k.from), i.clock(k.to))
}

// killed returns the number of processes that the kernel's OOM killer ended.
func (i *Incident) killed() int64 { return max(i.counted, i.named) }
