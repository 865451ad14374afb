package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// run is a scenario in progress.
type run struct {
	scenario *Scenario
	env      *env
	reported map[string]zoneState // last reported states of zones, by name
	chapters []chapter
	applied  int // number of events
}

// chapter has the events and actions of one time, at the printed precision of a millisecond.
type chapter struct {
	at     string
	events []string // in words, in order
	lines  []Line
}

type zoneState struct {
	name string
	rate float64
}

var normal = zones.Normal.String()

// run runs the scenario to its end. It returns an error if the run finds a fault of the file, or
// an error of the program.
func (s *Scenario) run() ([]chapter, error) {
	r := &run{scenario: s, env: newEnv(), reported: map[string]zoneState{}}
	for _, n := range s.nodes {
		r.env.register(n)
	}
	for _, p := range s.pods {
		r.env.create(p)
	}
	end := start.Add(s.until)
	for r.env.now.Before(end) {
		if err := r.instant(); err != nil {
			return nil, err
		}
		next, ok := r.next()
		if !ok {
			break
		}
		r.env.now = next
	}
	r.close()
	return r.chapters, nil
}

// instant simulates one time: events, then writes of nodes, then actions of the controller.
func (r *run) instant() error {
	if err := r.applyEvents(); err != nil {
		return err
	}
	r.env.beat()
	if r.env.fleet == nil {
		r.takeOver()
	}
	if next, ok := r.env.fleet.Next(); r.env.changed || ok && !next.After(r.env.now) {
		return r.runController()
	}
	return nil
}

// applyEvents executes the events of this time.
func (r *run) applyEvents() error {
	events := r.scenario.events
	for ; r.applied < len(events) && !start.Add(events[r.applied].at).After(r.env.now); r.applied++ {
		for _, d := range events[r.applied].changes {
			if err := d.do(r.env); err != nil {
				return err
			}
			c := r.chapter()
			c.events = append(c.events, d.words)
		}
	}
	return nil
}

// takeOver starts a new controller, which receives the objects of the API, leases first, and
// nothing else. After a failover its predecessor was active until now.
func (r *run) takeOver() {
	w := r.env
	w.fleet = core.New(r.scenario.policy)
	names := slices.Sorted(maps.Keys(w.nodes))
	for _, name := range names {
		if lease := w.nodes[name].lease; !lease.IsZero() {
			w.fleet.Renewed(name, lease, w.now, w.now)
		}
	}
	for _, name := range names {
		w.fleet.Node(w.nodes[name].object, w.now)
	}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if p := w.pods[name].object; p.Node != "" {
			w.fleet.Pod(p, w.now)
		}
	}
	var predecessor time.Time
	if w.now != start {
		predecessor = w.now
	}
	w.fleet.Lead(predecessor, w.now)
	w.changed = true
}

// maxRounds is the maximum number of rounds of the controller in one instant, each caused by the
// one before. Reaching it means an error of the program.
const maxRounds = 1000

// runController runs the controller until it returns no more actions for this time.
func (r *run) runController() error {
	for range maxRounds {
		r.env.changed = false
		actions := r.env.fleet.Act(r.env.now)
		for i := range actions {
			r.execute(&actions[i])
		}
		if len(actions) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the controller does not come to rest at %s: this is a bug of the program, please report it with the scenario", seconds(r.env.now.Sub(start)))
}

// next returns the next time at which something is due.
func (r *run) next() (next time.Time, ok bool) {
	earlier := func(at time.Time, is bool) {
		if is && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	earlier(r.env.calendar.next())
	if r.applied < len(r.scenario.events) {
		earlier(start.Add(r.scenario.events[r.applied].at), true)
	}
	// The controller has already executed actions that are due now.
	if at, is := r.env.fleet.Next(); is && at.After(r.env.now) {
		earlier(at, true)
	}
	return next, ok
}

// note adds a line to the chapter of this time.
func (r *run) note(l Line) {
	c := r.chapter()
	l.At = c.at
	c.lines = append(c.lines, l)
}

// chapter returns the chapter of this time.
func (r *run) chapter() *chapter {
	at := seconds(r.env.now.Sub(start))
	if n := len(r.chapters); n == 0 || r.chapters[n-1].at != at {
		r.close()
		r.chapters = append(r.chapters, chapter{at: at})
	}
	return &r.chapters[len(r.chapters)-1]
}

// close sorts the lines of the last chapter.
func (r *run) close() {
	if n := len(r.chapters); n > 0 {
		slices.SortStableFunc(r.chapters[n-1].lines, compare)
	}
}
