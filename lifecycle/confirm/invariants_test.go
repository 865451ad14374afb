package confirm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// recorder records all events, separately from the Checker and in another form.
type recorder struct {
	*rand.Rand
	policy  Policy
	nodes   int
	checker *Checker
	now     time.Time

	since     map[string]time.Time // suspects
	lost      map[string]bool      // confirmed since they were suspected
	inFlight  map[string]time.Time // reads without an answer
	evidence  map[string]time.Time // start of the last read that found a suspect's lease unrenewed
	reads     []time.Time
	notBefore time.Time
	losses    int
}

func newRecorder(seed uint64) *recorder {
	r := rand.New(rand.NewPCG(seed, 2))
	c := &recorder{Rand: r, now: start, nodes: 5 + r.IntN(40), since: map[string]time.Time{}, lost: map[string]bool{},
		inFlight: map[string]time.Time{}, evidence: map[string]time.Time{}}
	seconds := func(limit int) time.Duration { return time.Duration(r.IntN(limit)) * time.Second }
	c.policy = Policy{LiveReads: r.IntN(4) > 0, ReadsPerSecond: []float64{0, 0.7, 3, 50}[r.IntN(4)], Outage: seconds(40),
		MassFailureMinNodes: r.IntN(6), MassFailureFraction: r.Float64() / 2, MassFailureWindow: time.Second + seconds(60), MassFailureMaxDuration: seconds(200)}
	c.checker = New(c.policy)
	return c
}

func (c *recorder) name() string { return fmt.Sprint("n", c.IntN(c.nodes)) }

// randomEvent causes one random event, including faults.
func (c *recorder) randomEvent() {
	switch c.IntN(10) {
	case 0, 1, 2:
		for range 1 + c.IntN(4) {
			c.suspect(c.name())
		}
	case 3:
		c.clear(c.name())
	case 4:
		c.checker.Observed(c.now, c.now)
	case 5:
		if c.IntN(5) == 0 {
			c.checker.Unreachable(c.now)
		}
	case 6:
		c.answer(c.name(), Answer(c.IntN(3))) // possibly of no open read
	default:
		for _, name := range slices.Sorted(maps.Keys(c.inFlight)) {
			if c.IntN(2) == 0 {
				c.answer(name, []Answer{Failed, Unrenewed, Unrenewed, Unrenewed, Renewed}[c.IntN(5)])
			}
		}
	}
}

func (c *recorder) suspect(name string) {
	if _, is := c.since[name]; !is {
		c.since[name] = c.now
	}
	c.checker.Add(name, c.now)
}

func (c *recorder) clear(name string) {
	delete(c.since, name)
	delete(c.lost, name)
	delete(c.evidence, name)
	c.checker.Clear(name)
}

func (c *recorder) answer(name string, a Answer) {
	if began, requested := c.inFlight[name]; requested && a == Unrenewed {
		c.evidence[name] = began
	}
	delete(c.inFlight, name)
	c.checker.Answered(name, a, c.now)
	if a == Renewed && c.IntN(3) > 0 {
		c.clear(name)
	}
}

// decide runs the Checker and returns the violated invariant.
func (c *recorder) decide() error {
	next, waits := c.checker.Next()
	f := c.checker.Decide(c.nodes, c.now)
	if !f.NotBefore.IsZero() {
		if f.NotBefore.Before(c.notBefore) {
			return fmt.Errorf("notBefore moved back to %v", f.NotBefore.Sub(start))
		}
		c.notBefore = f.NotBefore
	}
	if len(f.Lost)+len(f.Read) > 0 && (!waits || next.After(c.now)) {
		return fmt.Errorf("got findings %+v, but next was %v, %v", f, next.Sub(start), waits)
	}
	open, since, why := c.checker.Breaker()
	if open && (!c.now.Before(since.Add(c.policy.MassFailureMaxDuration)) || why == "" || len(f.Lost) > 0) {
		return fmt.Errorf("breaker open since %v (%s), lost: %v", since.Sub(start), why, f.Lost)
	}
	return first(c.checkLost(f.Lost), c.checkReads(f.Read))
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *recorder) checkLost(lost []string) error {
	if !slices.IsSorted(lost) || len(lost) > 0 && c.now.Before(c.notBefore) {
		return fmt.Errorf("lost: %v, unsorted or before %v", lost, c.notBefore.Sub(start))
	}
	for _, name := range lost {
		since, is := c.since[name]
		evidence, read := c.evidence[name]
		if !is || c.lost[name] {
			return fmt.Errorf("%s is lost, but not suspected, or was reported before", name)
		}
		if c.policy.LiveReads && (!read || evidence.Before(since) || evidence.Before(c.notBefore)) {
			return fmt.Errorf("%s is lost by a read at %v (%v), suspected since %v, notBefore %v", name, evidence.Sub(start), read, since.Sub(start), c.notBefore.Sub(start))
		}
		c.lost[name] = true
		c.losses++
	}
	return nil
}

func (c *recorder) checkReads(reads []string) error {
	for _, name := range reads {
		_, inFlight := c.inFlight[name]
		if _, is := c.since[name]; !is || c.lost[name] || inFlight || !c.policy.LiveReads {
			return fmt.Errorf("needless read of %s", name)
		}
		c.inFlight[name] = c.now
		c.reads = append(c.reads, c.now)
		for i, then := range c.reads {
			n, elapsed := float64(len(c.reads)-i), c.now.Sub(then).Seconds()
			if rate := c.policy.ReadsPerSecond; rate > 0 && n > 1+rate*elapsed {
				return fmt.Errorf("%v reads within %v s at a rate of %v per second", n, elapsed, rate)
			}
		}
	}
	return nil
}

// checkPlaces checks that every suspect is in exactly one place.
func (c *recorder) checkPlaces() error {
	for name := range c.since {
		checker, places := c.checker, 0
		_, delayed := checker.delayed.At(name)
		_, queued := checker.queued.At(placeOf(name))
		_, unrenewed := checker.unrenewed.At(name)
		_, inFlight := checker.inFlight[name]
		for _, present := range []bool{delayed, queued, unrenewed, inFlight, c.lost[name]} {
			if present {
				places++
			}
		}
		if places != 1 && !(places == 2 && inFlight && c.lost[name]) {
			return fmt.Errorf("%s is in %d places: delayed %v, queued %v, unrenewed %v, in flight %v, lost %v", name, places, delayed, queued, unrenewed, inFlight, c.lost[name])
		}
	}
	return nil
}

func TestChecker_KeepsInvariants(t *testing.T) {
	const timelines, steps = 1500, 200
	losses := 0
	for seed := range uint64(timelines) {
		c := newRecorder(seed)
		for step := range steps {
			c.now = c.now.Add(time.Duration(c.IntN(3000)) * time.Millisecond)
			c.randomEvent()
			if err := first(c.decide(), c.checkPlaces()); err != nil {
				t.Fatalf("timeline %d %+v, step %d, at %v: %v", seed, c.policy, step, c.now.Sub(start), err)
			}
		}
		if err := c.finish(); err != nil {
			t.Fatalf("timeline %d %+v, at the end: %v", seed, c.policy, err)
		}
		losses += c.losses
	}
	if losses < timelines {
		t.Errorf("only %d losses in %d timelines", losses, timelines)
	}
}

// finish ends all faults. Every remaining suspect must finally be confirmed, with wake-ups
// only at the times that the Checker returned.
func (c *recorder) finish() error {
	c.suspect("last")
	limit := c.now.Add(c.policy.MassFailureMaxDuration + 2*c.policy.Outage + time.Minute)
	if c.policy.ReadsPerSecond > 0 {
		limit = limit.Add(time.Duration(float64(3*c.nodes) / c.policy.ReadsPerSecond * float64(time.Second)))
	}
	for len(c.lost) < len(c.since) {
		for _, name := range slices.Sorted(maps.Keys(c.inFlight)) {
			c.answer(name, Unrenewed)
		}
		if err := c.decide(); err != nil {
			return err
		}
		if len(c.inFlight) > 0 || len(c.lost) == len(c.since) {
			continue
		}
		next, ok := c.checker.Next()
		if !ok || next.After(limit) || next.Before(c.now) {
			return fmt.Errorf("%d suspects, %d lost, next at %v, %v", len(c.since), len(c.lost), next.Sub(start), ok)
		}
		c.now = next
	}
	return nil
}
