package cgroupnotify

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

const page = 4096

// TestLevelOf_ReturnsUsageOfCrossing checks that less than the line's amount is available from
// the level on, and not below it.
func TestLevelOf_ReturnsUsageOfCrossing(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 20))
	for range 100_000 {
		capacity := signals.Amount(random.Int64N(1 << 40))
		at := signals.Amount(random.Int64N(int64(capacity) + 1))
		u := cgroup.MemoryUsage{Usage: random.Uint64N(1<<40) / page * page}
		u.InactiveFile = random.Uint64N(u.Usage+1) / page * page
		available := capacity - signals.Amount(u.WorkingSet())
		for _, less := range []signals.Amount{0, signals.Amount(random.Int64N(1 << 30))} { // kernel memory
			o := signals.Observed(available-less, capacity, time.Time{})
			level, ok := levelOf(&o, at, u, page)
			if !ok || level%page != 0 {
				t.Fatalf("%+v, line %d, %+v: level %d, %t", o, at, u, level, ok)
			}
			for _, usage := range []uint64{level, level - page} {
				if usage == 0 {
					continue
				}
				below := o.Available-signals.Amount(usage)+signals.Amount(u.Usage) < at
				if below != (usage >= level) {
					t.Fatalf("%+v, line %d, %+v: below is %t at usage %d, the level is %d", o, at, u, below, usage, level)
				}
			}
		}
	}
}

// TestLevelOf_IgnoresAllocationSinceCheck checks that an allocation since the check does not
// move the level of a cgroup.
func TestLevelOf_IgnoresAllocationSinceCheck(t *testing.T) {
	seen := signals.Observed(300<<20, 512<<20, time.Time{})
	u := cgroup.MemoryUsage{Usage: 230 << 20, MemoryStat: cgroup.MemoryStat{InactiveFile: 10 << 20}} // 222 at the check
	if level, ok := levelOf(&seen, 100<<20, u, page); !ok || level != 422<<20+page {
		t.Errorf("got level %d, %t, want %d", level, ok, 422<<20+page)
	}
}

func TestLevelOf_RefusesInvalidNumbers(t *testing.T) {
	for _, c := range []struct {
		capacity, at signals.Amount
		usage        uint64
	}{{0, 0, 0}, {-1, -2, 0}, {100, 101, 0}, {100, -1, 0}, {math.MaxInt64, 0, 1}, {1 << 60, 0, math.MaxUint64}} {
		o := signals.Observed(c.capacity, c.capacity, time.Time{})
		if level, ok := levelOf(&o, c.at, cgroup.MemoryUsage{Usage: c.usage}, page); ok {
			t.Errorf("%+v: got level %d, want none", c, level)
		}
	}
}

// TestMoved_BoundsErrorOfArmedLevel checks the error of the armed level for any change of page
// cache: at most an eighth of the distance to the line, and one megabyte. Far from the line, a
// page cache change of a tenth of the distance arms nothing.
func TestMoved_BoundsErrorOfArmedLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 21))
	var armed uint64
	for range 100_000 {
		usage := random.Uint64N(1 << 36)
		wanted := usage + random.Uint64N(1<<36)
		if moved(wanted, armed, usage) {
			armed = wanted
		}
		left := wanted - usage
		if off := distance(wanted, armed); off > max(minSlack, left/slack) {
			t.Fatalf("the armed level is %d bytes off at %d bytes from the line", off, left)
		}
		if moved(wanted+left/10, wanted, usage) && left/10 > minSlack {
			t.Fatalf("armed again for %d bytes at %d bytes from the line", left/10, left)
		}
	}
}

// TestPace_LimitsWakes checks that a pace allows at most burst + t/every wakes in any time t,
// and at least a third of random requests.
func TestPace_LimitsWakes(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 22))
	for _, p := range []pace{near, far, {every: time.Second, burst: 1}} {
		now := time.Unix(1e9, 0)
		var granted []time.Time
		for range 3000 {
			now = now.Add(time.Duration(random.Int64N(int64(p.every))))
			if random.IntN(100) == 0 {
				now = now.Add(100 * p.every)
			}
			if !p.free().After(now) {
				p.record(now)
				granted = append(granted, now)
			}
		}
		for i := range granted {
			for j := i; j < min(i+200, len(granted)); j++ {
				if n, maxWakes := j-i+1, p.burst+int(granted[j].Sub(granted[i])/p.every); n > maxWakes {
					t.Fatalf("%v: %d wakes in %v, want at most %d", p.every, n, granted[j].Sub(granted[i]), maxWakes)
				}
			}
		}
		if len(granted) < 1000 {
			t.Errorf("%v: granted %d of 3000 wakes", p.every, len(granted))
		}
	}
}
