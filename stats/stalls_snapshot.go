package stats

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// snapshot is the kernel's counters of a pod, or of a part of the node, at one time.
type snapshot struct {
	path   string
	inode  uint64 // 0 for a part of the node
	at     time.Time
	waited signals.Measured[time.Duration] // in total; unknown without such a counter
	recent time.Duration                   // within the last 10 s
	groups map[string]tally                // by path: its cgroup and those of its containers
}

// tally is the kernel's counters of one cgroup.
type tally struct {
	atMax, atHigh uint64
	oom           uint64 // OOMs at its own limit
	oomKills      uint64 // kills at any limit
	throttled     time.Duration
	// isFull and wasFull report whether usage is at the limit now, and whether it ever was.
	// They are set where the kernel does not count limit hits.
	isFull, wasFull bool
}

// recently is the period of the shortest average in a pressure file.
const recently = 10 * time.Second

// since returns the changes since before; without it, the averages of the last 10 s.
func (now *snapshot) since(before *snapshot) signals.Stall {
	if before == nil {
		s := signals.Stall{Over: recently}
		if now.waited.Known {
			s.Waited = signals.Of(now.recent)
		}
		return s
	}
	s := signals.Stall{Over: now.at.Sub(before.at)}
	if now.waited.Known && before.waited.Known {
		s.Waited = signals.Of(time.Duration(grown(uint64(before.waited.Value), uint64(now.waited.Value))))
	}
	now.count(before, &s)
	return s
}

// count adds up the limit hits of the cgroup and its containers. A new container began at 0.
//
// Kills by the OOM killer count as the pod's own only if one of its own limits was exhausted,
// because a kill for the node is counted there too. A quota explains waiting only if it
// throttled the tasks for at least as long as they waited, because nearly every quota throttles
// now and then.
func (now *snapshot) count(before *snapshot, s *signals.Stall) {
	var oom, kills uint64
	var isFull, wasFull bool // at a limit now or for the first time since before; ever
	for path, g := range now.groups {
		b := before.groups[path]
		s.AtMax += grown(b.atMax, g.atMax)
		s.AtHigh += grown(b.atHigh, g.atHigh)
		oom += grown(b.oom, g.oom)
		kills += grown(b.oomKills, g.oomKills)
		isFull = isFull || g.isFull || g.wasFull && !b.wasFull
		wasFull = wasFull || g.wasFull
		s.Throttled = max(s.Throttled, time.Duration(grown(uint64(b.throttled), uint64(g.throttled))))
	}
	if kills > 0 && (oom > 0 || wasFull) {
		s.OOMKills = kills
	}
	if s.AtMax == 0 && (isFull || s.OOMKills > 0) {
		s.AtMax = 1
	}
	if s.Waited.Known && s.Throttled < s.Waited.Value {
		s.Throttled = 0
	}
}

// grown returns the increase of a counter. A decrease means that the cgroup was recreated and
// the counter began at 0.
func grown(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}
