package cgroupnotify

import (
	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/signal"
)

// levelOf is the least usage, in bytes and whole pages, at which less than at is
// available:
//
//	available = capacity − (usage − inactive file) < at
//
// What the kernel compares is usage in pages, and it rounds what it is given
// down. ok is false where no usage is that level: at is beyond the capacity, or
// the numbers are absurd.
func levelOf(capacity, at signal.Amount, u cgroup.MemoryUsage, page uint64) (level uint64, ok bool) {
	inactive := min(u.InactiveFile, u.Usage)
	if capacity <= 0 || capacity > absurd || at < 0 || at > capacity || inactive > absurd {
		return 0, false
	}
	return (uint64(capacity-at)+inactive)/page*page + page, true
}

// absurd is more memory than any machine has, in bytes.
const absurd = 1 << 62

// slack is how far off a level may be that is still far away, as a part of the
// way to it; leastSlack, in bytes, how far it may always be: the kernel itself
// checks only every 128 pages on each CPU.
const (
	slack      = 8
	leastSlack = 1 << 20
)

// moved reports whether a level is so far from the armed one that it has to be
// armed anew. The nearer the usage, the more exact: a line far away costs
// nothing while page cache comes and goes.
func moved(wanted, armed, usage uint64) bool {
	return distance(wanted, armed) > max(leastSlack, distance(wanted, usage)/slack)
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
