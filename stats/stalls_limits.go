package stats

import (
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// nearness is the distance of a cgroup to its limits. A distance of 1/64 counts as met, because
// the kernel charges in batches.
type nearness struct {
	limit         signals.Bytes // memory.max, 0 for none
	free          float64       // the unused share of it
	atMax, atHigh uint64        // 1 if it is met
}

// nearest reads which limits the cgroup and its containers meet now. The amount is that of the
// limit with the smallest unused share.
func (c *counters) nearest(w watched) (near nearness, err error) {
	if near, err = c.near(w.path); err != nil {
		return nearness{}, err
	}
	for _, k := range w.containers {
		of, err := c.near(k.Path)
		if cgroup.IsGone(err) {
			continue
		}
		if err != nil {
			return nearness{}, err
		}
		if of.limit > 0 && (near.limit == 0 || of.free < near.free) {
			near.limit, near.free = of.limit, of.free
		}
		near.atMax, near.atHigh = max(near.atMax, of.atMax), max(near.atHigh, of.atHigh)
	}
	return near, nil
}

// limitFiles are the limits of a version, and the usage compared with them.
var limitFiles = map[cgroup.Version]struct{ usage, max, high string }{
	cgroup.V1: {"memory.usage_in_bytes", "memory.limit_in_bytes", ""},
	cgroup.V2: {"memory.current", "memory.max", "memory.high"},
}

func (c *counters) near(path string) (n nearness, err error) {
	files := limitFiles[c.h.Version]
	usage, err := c.number(path, files.usage)
	if err != nil {
		return nearness{}, err
	}
	limit, limited, err := c.limit(path, files.max)
	if err != nil {
		return nearness{}, err
	}
	if limited {
		n.limit, n.free = signals.Bytes(limit), 1-float64(usage)/float64(max(limit, 1))
		n.atMax = reached(usage, limit)
	}
	if files.high == "" {
		return n, nil
	}
	if limit, limited, err = c.limit(path, files.high); limited {
		n.atHigh = reached(usage, limit)
	}
	return n, err
}

// reached returns 1 if the usage is within 1/64 of the limit.
func reached(usage, limit uint64) uint64 {
	if usage < limit-limit/64 {
		return 0
	}
	return 1
}

func (c *counters) limit(path, file string) (limit uint64, limited bool, err error) {
	text, err := c.text("memory", path, file)
	if err != nil {
		return 0, false, err
	}
	return cgroup.ParseLimit(text)
}
