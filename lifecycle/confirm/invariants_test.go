package confirm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// chronicle records all events, separately from the Checker and in another form.
type chronicle struct {
	*rand.Rand
	policy Policy
	nodes  int
	judge  *Checker
	now    time.Time

	since  map[string]time.Time // suspects
	dead   map[string]bool      // confirmed since they were suspected
	flying map[string]time.Time // reads without an answer
	proof  map[string]time.Time // begin of the last read that found a suspect's lease not renewed
	reads  []time.Time
	floor  time.Time
	deaths int
}

func newChronicle(seed uint64) *chronicle {
	r := rand.New(rand.NewPCG(seed, 2))
	c := &chronicle{Rand: r, now: start, nodes: 5 + r.IntN(40), since: map[string]time.Time{}, dead: map[string]bool{},
		flying: map[string]time.Time{}, proof: map[string]time.Time{}}
	seconds := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Second }
	c.policy = Policy{LiveReads: r.IntN(4) > 0, ReadsPerSecond: []float64{0, 0.7, 3, 50}[r.IntN(4)], Outage: seconds(40),
		StormNodes: r.IntN(6), StormShare: r.Float64() / 2, StormWindow: time.Second + seconds(60), StormLongest: seconds(200)}
	c.judge = New(c.policy)
	return c
}

func (c *chronicle) name() string { return fmt.Sprint("n", c.IntN(c.nodes)) }

// happens causes one random event, including faults.
func (c *chronicle) happens() {
	switch c.IntN(10) {
	case 0, 1, 2:
		for range 1 + c.IntN(4) {
			c.suspect(c.name())
		}
	case 3:
		c.clear(c.name())
	case 4:
		c.judge.Heard(c.now, c.now)
	case 5:
		if c.IntN(5) == 0 {
			c.judge.Unreachable(c.now)
		}
	case 6:
		c.answer(c.name(), Answer(c.IntN(3))) // possibly of no open read
	default:
		for _, name := range slices.Sorted(maps.Keys(c.flying)) {
			if c.IntN(2) == 0 {
				c.answer(name, []Answer{Failed, Unrenewed, Unrenewed, Unrenewed, Renewed}[c.IntN(5)])
			}
		}
	}
}

func (c *chronicle) suspect(name string) {
	if _, is := c.since[name]; !is {
		c.since[name] = c.now
	}
	c.judge.Add(name, c.now)
}

func (c *chronicle) clear(name string) {
	delete(c.since, name)
	delete(c.dead, name)
	delete(c.proof, name)
	c.judge.Clear(name)
}

func (c *chronicle) answer(name string, a Answer) {
	if began, flew := c.flying[name]; flew && a == Unrenewed {
		c.proof[name] = began
	}
	delete(c.flying, name)
	c.judge.Answered(name, a, c.now)
	if a == Renewed && c.IntN(3) > 0 {
		c.clear(name)
	}
}

// decide runs the Checker and returns the violated invariant.
func (c *chronicle) decide() error {
	next, waits := c.judge.Next()
	f := c.judge.Decide(c.nodes, c.now)
	if !f.NotBefore.IsZero() {
		if f.NotBefore.Before(c.floor) {
			return fmt.Errorf("the floor fell to %v", f.NotBefore.Sub(start))
		}
		c.floor = f.NotBefore
	}
	if len(f.Lost)+len(f.Read) > 0 && (!waits || next.After(c.now)) {
		return fmt.Errorf("came to %+v, but waited until %v, %v", f, next.Sub(start), waits)
	}
	open, since, why := c.judge.Breaker()
	if open && (!c.now.Before(since.Add(c.policy.StormLongest)) || why == "" || len(f.Lost) > 0) {
		return fmt.Errorf("breaker open since %v (%s), dead: %v", since.Sub(start), why, f.Lost)
	}
	return first(c.buried(f.Lost), c.begun(f.Read))
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *chronicle) buried(dead []string) error {
	if !slices.IsSorted(dead) || len(dead) > 0 && c.now.Before(c.floor) {
		return fmt.Errorf("dead: %v, with the floor at %v", dead, c.floor.Sub(start))
	}
	for _, name := range dead {
		since, is := c.since[name]
		proof, proven := c.proof[name]
		if !is || c.dead[name] {
			return fmt.Errorf("%s is dead and no suspect, or was told before", name)
		}
		if c.policy.LiveReads && (!proven || proof.Before(since) || proof.Before(c.floor)) {
			return fmt.Errorf("%s is dead by a read of %v (%v), suspected since %v, floor %v", name, proof.Sub(start), proven, since.Sub(start), c.floor.Sub(start))
		}
		c.dead[name] = true
		c.deaths++
	}
	return nil
}

func (c *chronicle) begun(reads []string) error {
	for _, name := range reads {
		_, flies := c.flying[name]
		if _, is := c.since[name]; !is || c.dead[name] || flies || !c.policy.LiveReads {
			return fmt.Errorf("reads %s for nothing", name)
		}
		c.flying[name] = c.now
		c.reads = append(c.reads, c.now)
		for i, then := range c.reads {
			n, elapsed := float64(len(c.reads)-i), c.now.Sub(then).Seconds()
			if rate := c.policy.ReadsPerSecond; rate > 0 && n > 1+rate*elapsed {
				return fmt.Errorf("%v reads within %v s, at a rate of %v", n, elapsed, rate)
			}
		}
	}
	return nil
}

// placed checks that every suspect is in exactly one place.
func (c *chronicle) placed() error {
	for name := range c.since {
		j, places := c.judge, 0
		_, later := j.delayed.At(name)
		_, turn := j.queued.At(placeOf(name))
		_, agreed := j.unrenewed.At(name)
		_, flies := j.inFlight[name]
		for _, here := range []bool{later, turn, agreed, flies, c.dead[name]} {
			if here {
				places++
			}
		}
		if places != 1 && !(places == 2 && flies && c.dead[name]) {
			return fmt.Errorf("%s is in %d places: later %v, turn %v, agreed %v, flying %v, dead %v", name, places, later, turn, agreed, flies, c.dead[name])
		}
	}
	return nil
}

func TestInvariants(t *testing.T) {
	const timelines, steps = 1500, 200
	deaths := 0
	for seed := range uint64(timelines) {
		c := newChronicle(seed)
		for step := range steps {
			c.now = c.now.Add(time.Duration(c.IntN(3000)) * time.Millisecond)
			c.happens()
			if err := first(c.decide(), c.placed()); err != nil {
				t.Fatalf("timeline %d %+v, step %d, at %v: %v", seed, c.policy, step, c.now.Sub(start), err)
			}
		}
		if err := c.conclude(); err != nil {
			t.Fatalf("timeline %d %+v, at the end: %v", seed, c.policy, err)
		}
		deaths += c.deaths
	}
	if deaths < timelines {
		t.Errorf("only %d deaths in %d timelines: they show nothing", deaths, timelines)
	}
}

// conclude ends all faults. Every remaining suspect must finally be confirmed, with wake-ups
// only at the times that the Checker returned.
func (c *chronicle) conclude() error {
	c.suspect("last")
	most := c.now.Add(c.policy.StormLongest + 2*c.policy.Outage + time.Minute)
	if c.policy.ReadsPerSecond > 0 {
		most = most.Add(time.Duration(float64(3*c.nodes) / c.policy.ReadsPerSecond * float64(time.Second)))
	}
	for len(c.dead) < len(c.since) {
		for _, name := range slices.Sorted(maps.Keys(c.flying)) {
			c.answer(name, Unrenewed)
		}
		if err := c.decide(); err != nil {
			return err
		}
		if len(c.flying) > 0 || len(c.dead) == len(c.since) {
			continue
		}
		next, ok := c.judge.Next()
		if !ok || next.After(most) || next.Before(c.now) {
			return fmt.Errorf("%d suspects, %d dead, waits until %v, %v", len(c.since), len(c.dead), next.Sub(start), ok)
		}
		c.now = next
	}
	return nil
}
