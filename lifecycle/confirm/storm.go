package confirm

import (
	"fmt"
	"slices"
	"time"
)

// minInRow is the number of losses confirmed in a row that show that the nodes are
// lost, and not that our watch is stale.
const minInRow = 20

// A storm is a number of nodes that become silent together, with the breaker that opens
// for it. The zero value has none.
type storm struct {
	recent         []time.Time // suspicions within the window, or shortly before, oldest first
	open           bool
	since          time.Time
	why            string
	confirmedInRow int       // losses confirmed in a row
	closed         time.Time // when it was closed without an explanation
}

// Breaker reports whether the breaker is open, since when, and why.
func (c *Checker) Breaker() (open bool, since time.Time, why string) {
	if !c.storm.open {
		return false, time.Time{}, ""
	}
	return true, c.storm.since, c.storm.why
}

func (s *storm) count(p *Policy, now time.Time) {
	if p.StormNodes > 0 {
		s.recent = append(s.recent, now)
	}
}

// watch opens or closes the breaker.
func (s *storm) watch(c *Checker, nodes int) {
	if s.open {
		s.close(c)
		return
	}
	p := &c.policy
	from := c.now.Add(-p.StormWindow)
	first, _ := slices.BinarySearchFunc(s.recent, from, time.Time.Compare)
	s.recent = s.recent[first:]
	most := max(float64(p.StormNodes), p.StormShare*float64(nodes))
	if p.StormNodes == 0 || p.StormLongest <= 0 || float64(len(s.recent)) <= most {
		return
	}
	s.open, s.since, s.confirmedInRow = true, c.now, 0
	s.why = fmt.Sprintf("%d of %d nodes fell silent within %v, more than %.0f", len(s.recent), nodes, p.StormWindow, most)
}

// close closes the breaker when the storm is explained, or after StormLongest.
func (s *storm) close(c *Checker) {
	over := !c.now.Before(s.since.Add(c.policy.StormLongest))
	if !over && !s.due(c) {
		return
	}
	if !s.due(c) {
		s.closed = c.now // reads during the storm are of no use
	}
	s.open, s.recent = false, nil
}

// due reports whether the breaker is open without a reason.
func (s *storm) due(c *Checker) bool {
	return s.open && s.confirmedInRow >= min(minInRow, len(c.suspects)-c.lost)
}
