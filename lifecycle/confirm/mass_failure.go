package confirm

import (
	"fmt"
	"slices"
	"time"
)

// minInRow is the number of losses confirmed in a row that show that the nodes are
// lost, and not that our watch is stale.
const minInRow = 20

// A massFailure is a number of nodes that become silent together, with the breaker that opens
// for it. The zero value has none.
type massFailure struct {
	recent         []time.Time // suspicions within the window, or shortly before, oldest first
	open           bool
	since          time.Time
	why            string
	confirmedInRow int       // losses confirmed in a row
	closed         time.Time // when it was closed without an explanation
}

// Breaker reports whether the breaker is open, since when, and why.
func (c *Checker) Breaker() (open bool, since time.Time, why string) {
	if !c.massFailure.open {
		return false, time.Time{}, ""
	}
	return true, c.massFailure.since, c.massFailure.why
}

func (s *massFailure) count(p *Policy, now time.Time) {
	if p.MassFailureMinNodes > 0 {
		s.recent = append(s.recent, now)
	}
}

// update opens or closes the breaker.
func (s *massFailure) update(c *Checker, nodes int) {
	if s.open {
		s.close(c)
		return
	}
	p := &c.policy
	from := c.now.Add(-p.MassFailureWindow)
	first, _ := slices.BinarySearchFunc(s.recent, from, time.Time.Compare)
	s.recent = s.recent[first:]
	limit := max(float64(p.MassFailureMinNodes), p.MassFailureFraction*float64(nodes))
	if p.MassFailureMinNodes == 0 || p.MassFailureMaxDuration <= 0 || float64(len(s.recent)) <= limit {
		return
	}
	s.open, s.since, s.confirmedInRow = true, c.now, 0
	s.why = fmt.Sprintf("%d of %d nodes missed their heartbeats within %v, more than %.0f", len(s.recent), nodes, p.MassFailureWindow, limit)
}

// close closes the breaker when the losses are confirmed, after MassFailureMaxDuration, or if the policy
// has none any more.
func (s *massFailure) close(c *Checker) {
	over := c.policy.MassFailureMinNodes == 0 || !c.now.Before(s.since.Add(c.policy.MassFailureMaxDuration))
	if !over && !s.due(c) {
		return
	}
	if !s.due(c) {
		s.closed = c.now // reads during the mass failure do not count
	}
	s.open, s.recent = false, nil
}

// due reports whether the breaker may close: enough losses in a row are confirmed.
func (s *massFailure) due(c *Checker) bool {
	return s.open && s.confirmedInRow >= min(minInRow, len(c.suspects)-c.lost)
}
