package cgroupnotify

import (
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// levelOf is the least usage, in bytes and whole pages, at which less than at is
// available, by a look and what is used now. Of a cgroup that is exact, whatever
// has happened since the look:
//
//	available = capacity − (usage − inactive file) < at
//
// Where the look has found less available than that, as on a machine whose
// kernel holds memory of its own, what was left then is counted from now. What
// the kernel compares is usage in pages, and it rounds what it is given down. ok
// is false where no usage is that level: at is beyond the capacity, or the
// numbers are absurd.
func levelOf(o *signals.Observation, at signals.Amount, u cgroup.MemoryUsage, page uint64) (level uint64, ok bool) {
	inactive := min(u.InactiveFile, u.Usage)
	if o.Capacity <= 0 || o.Capacity > absurd || at < 0 || at > o.Capacity || u.Usage > absurd {
		return 0, false
	}
	own := uint64(o.Capacity-at) + inactive
	return min(own, guess(u.Usage, o, at))/page*page + page, true
}

// guess is about the usage at which less than at is available, if nothing has
// happened since the look.
func guess(usage uint64, o *signals.Observation, at signals.Amount) uint64 {
	left := o.Available - at
	if left < 0 {
		return usage - min(usage, uint64(-left))
	}
	return usage + uint64(left)
}

// absurd is more memory than any machine has, in bytes.
const absurd = 1 << 62

// slack is how far off a level may be that is still far away, as a part of the
// way to it; leastSlack, in bytes, how far it may always be: the kernel itself
// checks only every 128 pages on each CPU.
const (
	slack    = 8
	minSlack = 1 << 20
)

// moved reports whether a level is so far from the armed one that it has to be
// armed anew. The nearer the usage, the more exact: a line far away costs
// nothing while page cache comes and goes.
func moved(wanted, armed, usage uint64) bool {
	return distance(wanted, armed) > max(minSlack, distance(wanted, usage)/slack)
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
