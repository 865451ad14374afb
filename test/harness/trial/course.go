package trial

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Step is one course of a workload's memory. It is fixed in advance, so that the agent's
// decisions can be compared with the course without the agent.
type Step struct {
	Workload string
	Order    string // for the hog
	Beside   string // a command for the innocent pod, started before and ended after; may be empty
	// Exhausts: it continues beyond the node's limit, so that the kernel would kill. Other steps
	// stay below the limit; the kernel reclaims page cache.
	Exhausts bool
	// Brink: it ends when the remaining memory would last less than the reserve at its
	// rate. No observer can distinguish it from imminent exhaustion beforehand.
	Brink bool
}

// workload draws its next step. The deck contains that many steps of each.
type workload struct {
	name   string
	deck   int
	onDisk bool
	draw   func(*course) Step
}

// brinks are drawn only on request.
const brinks = "dips that end with less than the reserve available"

var workloads = []workload{
	{name: "dips", deck: 5, draw: func(c *course) Step {
		return Step{Order: c.approach("dip", false)}
	}},
	{name: "JVM-like starts", deck: 4, draw: func(c *course) Step {
		return Step{Order: c.approach("jvm", false)}
	}},
	{name: "tmpfs growth and release", deck: 4, draw: func(c *course) Step {
		return Step{Order: c.approach("tmpfs", false)}
	}},
	{name: "sequential cache streams", deck: 2, onDisk: true, draw: func(c *course) Step {
		return Step{Order: fmt.Sprintf("cache %d in %s fsync", c.file(), c.dir)}
	}},
	{name: "random cache streams", deck: 2, onDisk: true, draw: func(c *course) Step {
		return Step{Order: fmt.Sprintf("random %d in %s for %v", c.file(), c.dir, c.hold())}
	}},
	{name: "image unpacking", deck: 2, onDisk: true, draw: func(c *course) Step {
		return Step{Order: fmt.Sprintf("unpack %d in %s", c.file(), c.dir)}
	}},
	{name: "fills beyond the limit", deck: 1, draw: func(c *course) Step {
		return Step{Order: fmt.Sprintf("fill 4GiB at %d/s", c.between(20*mib, 800*mib)), Exhausts: true}
	}},
	// The stream is larger than the available memory, but not than what remains available above
	// the threshold once the hog is gone: a working set contains active pages of files, so the
	// stream alone would have a pod evicted.
	{name: "fills beyond the limit beside a stream", deck: 1, onDisk: true, draw: func(c *course) Step {
		return Step{Order: fmt.Sprintf("fill 4GiB at %d/s", c.between(50*mib, 400*mib)), Exhausts: true,
			Beside: fmt.Sprintf("random %d in %s for 3s", c.room+c.room/2, c.dir)}
	}},
	{name: brinks, draw: func(c *course) Step {
		return Step{Order: c.approach("dip", true), Brink: true}
	}},
}

const mib = 1 << 20

// Bounds of the available memory at the lowest point.
const (
	deepest = 25 * mib  // minimum left
	shallow = 140 * mib // maximum left
	fastest = 400 * mib // per second, for steps above the threshold
	minLast = 700 * time.Millisecond
	maxLast = 2 * time.Second
)

// course draws steps for a node. The same seed gives the same steps while the available memory
// of the node is the same.
type course struct {
	dice      *rand.Rand
	deck      []workload
	all       []workload
	threshold int64         // threshold, in available bytes
	room      int64         // available now
	maxHold   time.Duration // maximum duration of a hold
	dir       string        // on a disk; empty: steps with files are not drawn
}

func newCourse(seed uint64, dir string, withBrinks bool) *course {
	c := &course{dice: rand.New(rand.NewPCG(seed, seed)), dir: dir}
	for _, w := range workloads {
		if w.name == brinks && withBrinks {
			w.deck = 1
		}
		for range w.deck {
			if !w.onDisk || dir != "" {
				c.all = append(c.all, w)
			}
		}
	}
	return c
}

// Steps returns a source of the steps of [Regret] for another node with a threshold in available bytes. Its argument is the
// memory that is available, in bytes. Files are in a directory as the hog sees it.
func Steps(seed uint64, dir string, threshold int64, maxHold time.Duration) func(room int64) Step {
	c := newCourse(seed, dir, false)
	c.threshold, c.maxHold = threshold, maxHold
	return c.next
}

// next draws from a deck. After its last step the deck is shuffled again, so that every
// workload is part of a short run.
func (c *course) next(room int64) Step {
	if len(c.deck) == 0 {
		c.deck = append(c.deck, c.all...)
		c.dice.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
	}
	w := c.deck[0]
	c.deck, c.room = c.deck[1:], room
	s := w.draw(c)
	s.Workload = w.name
	return s
}

// approach grows towards the limit and holds. Below the threshold its rate is set by the
// remaining time of the memory at the lowest point. This time is 0.7 to 2 s, above the reserve,
// or 0.1 to 0.4 s on the brink.
func (c *course) approach(verb string, brink bool) string {
	left := c.between(deepest, shallow)
	low, high := minLast, maxLast
	if brink {
		left = c.between(deepest, c.threshold/2)
		low, high = reserve/5, reserve*4/5
	}
	lasts := time.Duration(c.between(int64(low), int64(high)))
	rate := int64(float64(left) / lasts.Seconds())
	if left > c.threshold+8*mib { // no threshold in reach: any rate
		rate = c.between(rate, fastest)
	}
	return fmt.Sprintf("%s %d at %d/s for %v", verb, max(c.room-left, 4*mib), rate, c.hold())
}

// file returns the size of a file: most are larger than the available memory.
func (c *course) file() int64 { return c.between(c.room*3/4, 3*c.room) }

func (c *course) hold() time.Duration {
	return time.Duration(c.between(int64(c.maxHold/8), int64(c.maxHold))).Round(time.Millisecond)
}

func (c *course) between(low, high int64) int64 {
	return low + c.dice.Int64N(high-low+1)
}
