package stats

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A standing is what the kernel has counted of a pod, or of a part of the node,
// until a moment.
type standing struct {
	path   string
	inode  uint64 // 0 for a part of the node
	at     time.Time
	waited signals.Measured[time.Duration] // in all; unknown where nobody counts it
	recent time.Duration                   // of the last 10 s
	groups map[string]tally                // by path: its cgroup and its containers'
}

// A tally is what the kernel has counted of one cgroup.
type tally struct {
	atMax, atHigh uint64
	oom           uint64 // how often a limit of its own left nothing but to kill
	oomKills      uint64 // for whatever limit
	throttled     time.Duration
	// Where the kernel does not count how often the limit was met: whether usage
	// is at it now, and whether it ever was.
	isFull, wasFull bool
}

// recently is the time that a pressure file's shortest average is over.
const recently = 10 * time.Second

// since is what has happened since before; without one, what the averages say
// of the last 10 s.
func (now *standing) since(before *standing) signals.Stall {
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

// count adds up what the cgroup and its containers have met. A container that
// was not there before began at 0.
//
// An OOM killer's victims count as the pod's own only if a limit of its own was
// short: the node's kills there, too. A quota explains waiting only if it held
// the tasks back for at least as long as they waited: nearly every pod that has
// one is held back now and then.
func (now *standing) count(before *standing, s *signals.Stall) {
	var oom, kills uint64
	var isFull, wasFull bool // at a limit now, or for the first time meanwhile; ever
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

// grown is by how much a counter has grown; one that went backwards belongs to a
// cgroup that was made anew, and began at 0.
func grown(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}
