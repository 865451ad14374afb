package confirm

import (
	"fmt"
	"slices"
	"time"
)

// minInRow nodes found dead in succession are nodes that are dead, and not a watch
// that is stale.
const minInRow = 20

// A storm is many nodes that fall silent together, and the breaker that opens
// for it. The zero value is calm.
type storm struct {
	recent         []time.Time // suspicions within the window, or somewhat before, oldest first
	open           bool
	since          time.Time
	why            string
	confirmedInRow int       // suspects found dead in succession
	closed         time.Time // it was closed without having been explained
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

// watch opens the breaker or closes it.
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

// close closes the breaker when it is explained, or has been open for long
// enough.
func (s *storm) close(c *Checker) {
	over := !c.now.Before(s.since.Add(c.policy.StormLongest))
	if !over && !s.due(c) {
		return
	}
	if !s.due(c) {
		s.closed = c.now // what was read during it was overtaken by it
	}
	s.open, s.recent = false, nil
}

// due reports whether the breaker is open and there is no more reason for it.
func (s *storm) due(c *Checker) bool {
	return s.open && s.confirmedInRow >= min(minInRow, len(c.suspects)-c.lost)
}
