package cgroupnotify

import (
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// levelOf returns the smallest usage, in bytes and whole pages, at which less than at is
// available. It uses the last check and the current usage. For a cgroup the result is exact in
// spite of any change since the check:
//
//	available = capacity − (usage − inactive file) < at
//
// If the check found less available, as on a machine with kernel memory in use, the level is
// the current usage plus the headroom of that check. The kernel compares usage in pages and
// rounds the given level down. ok is false if no usage is that level: at exceeds the capacity,
// or the numbers are invalid.
func levelOf(o *signals.Observation, at signals.Amount, u cgroup.MemoryUsage, page uint64) (level uint64, ok bool) {
	inactive := min(u.InactiveFile, u.Usage)
	if o.Capacity <= 0 || o.Capacity > maxMemory || at < 0 || at > o.Capacity || u.Usage > maxMemory {
		return 0, false
	}
	own := uint64(o.Capacity-at) + inactive
	return min(own, estimate(u.Usage, o, at))/page*page + page, true
}

// estimate returns the approximate usage at which less than at is available, without changes
// since the check.
func estimate(usage uint64, o *signals.Observation, at signals.Amount) uint64 {
	left := o.Available - at
	if left < 0 {
		return usage - min(usage, uint64(-left))
	}
	return usage + uint64(left)
}

// maxMemory is an upper bound of any machine's memory, in bytes.
const maxMemory = 1 << 62

// slack limits the error of a distant level, as a fraction (1/slack) of the distance to it.
// minSlack is the error that is always allowed, in bytes: the kernel itself checks only every
// 128 pages on each CPU.
const (
	slack    = 8
	minSlack = 1 << 20
)

// moved reports whether a level is far enough from the armed one to require a registration. The
// precision increases as the usage comes closer, so page cache changes cost nothing for a
// distant line.
func moved(wanted, armed, usage uint64) bool {
	return distance(wanted, armed) > max(minSlack, distance(wanted, usage)/slack)
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }
