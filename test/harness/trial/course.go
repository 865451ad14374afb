package trial

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Step is one course that a workload's memory will take. It is known
// beforehand, so that what the agent did can be held against what would have
// been.
type Step struct {
	Workload string
	Order    string // to the hog
	Beside   string // an order to the innocent pod, begun before and ended after; may be empty
	// Doomed: it goes on beyond the node's limit, so that the kernel would kill.
	// No other step does; page cache gives way.
	Doomed bool
	// Brink: it turns round when what is left would have lasted less than the
	// reserve at its pace. Nobody can tell it from doom beforehand.
	Brink bool
}

// A workload draws its next step. Of each so many steps are in a deck.
type workload struct {
	name   string
	deck   int
	onDisk bool
	draw   func(*course) Step
}

// brinks are drawn only where they are asked for.
const brinks = "dips that turn round with less than the reserve left"

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
		return Step{Order: fmt.Sprintf("fill 4GiB at %d/s", c.between(20*mib, 800*mib)), Doomed: true}
	}},
	{name: "fills beyond the limit beside a stream", deck: 1, onDisk: true, draw: func(c *course) Step {
		return Step{Order: fmt.Sprintf("fill 4GiB at %d/s", c.between(50*mib, 400*mib)), Doomed: true,
			Beside: fmt.Sprintf("random %d in %s for 3s", 2*c.room, c.dir)}
	}},
	{name: brinks, draw: func(c *course) Step {
		return Step{Order: c.approach("dip", true), Brink: true}
	}},
}

const mib = 1 << 20

// How close memory comes.
const (
	deepest = 25 * mib  // left at the least
	shallow = 140 * mib // left at the most
	fastest = 400 * mib // a second, of what stays above the line
	minLast = 700 * time.Millisecond
	maxLast = 2 * time.Second
)

// A course draws steps for a node, the same ones for the same seed as far as
// what is left of the node is the same.
type course struct {
	dice      *rand.Rand
	deck      []workload
	all       []workload
	threshold int64         // the line, in bytes that are left
	room      int64         // that is left now
	longest   time.Duration // of a hold
	dir       string        // on a disk; empty: nothing that needs one is drawn
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

// next draws from a deck that is shuffled anew when it is used up: every workload
// has its share in a short run, too.
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

// approach goes towards the limit and holds. Under the line its pace is such
// that what is left at the lowest point would last 0.7 to 2 s more, above the
// reserve; on the brink 0.1 to 0.4 s.
func (c *course) approach(verb string, brink bool) string {
	left := c.between(deepest, shallow)
	least, most := minLast, maxLast
	if brink {
		left = c.between(deepest, c.threshold/2)
		least, most = reserve/5, reserve*4/5
	}
	lasts := time.Duration(c.between(int64(least), int64(most)))
	rate := int64(float64(left) / lasts.Seconds())
	if left > c.threshold+8*mib { // no line in reach: as it likes
		rate = c.between(rate, fastest)
	}
	return fmt.Sprintf("%s %d at %d/s for %v", verb, max(c.room-left, 4*mib), rate, c.hold())
}

// file is the size of a file: most are larger than what is left.
func (c *course) file() int64 { return c.between(c.room*3/4, 3*c.room) }

func (c *course) hold() time.Duration {
	return time.Duration(c.between(int64(c.longest/8), int64(c.longest))).Round(time.Millisecond)
}

func (c *course) between(least, most int64) int64 {
	return least + c.dice.Int64N(most-least+1)
}
