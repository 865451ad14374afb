package report

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of a history. A policy has at most 64 thresholds for all signals.
const (
	maxCrossings = 16
	maxLevels    = 256
)

// history is a signal over the time of a report.
type history struct {
	signal    signals.Signal
	available series
	capacity  signals.Amount // the last one
	crossings []*crossing
	more      bool   // there are further thresholds
	known     int    // checks that observed the signal
	unknown   int    // checks that could not
	cause     string // of the first of them
	acted     bool   // a check acted for the signal
}

// crossing is how often, and for how long, a signal was below a threshold.
type crossing struct {
	threshold string
	levels    []level   // its amounts
	from, to  time.Time // of the checks with it

	inForce, wasInForce bool // in the last check, and in the one before

	times       int
	first, last time.Time // begin of the first time, end of the last one
	total       time.Duration
	least       signals.Amount // while below

	below  bool
	since  time.Time
	paused bool // below when checks were missing
	atEnd  bool // below in the last check
}

// observe adds the observation of a check by a policy, which is nil if it is not known.
func (h *history) observe(o *signals.Observation, p *eviction.Policy, t time.Time, at time.Duration) {
	h.known++
	h.capacity = o.Capacity
	h.available.add(at, int64(o.Available))
	for _, c := range h.crossings {
		c.wasInForce, c.inForce = c.inForce, false
	}
	if p != nil {
		for i := range p.Thresholds {
			threshold := &p.Thresholds[i]
			if threshold.Signal != h.signal {
				continue
			}
			if c := h.crossing(threshold); c != nil {
				c.observe(threshold.Value.Of(o.Capacity).Value, o.Available, t, at)
			}
		}
	}
	for _, c := range h.crossings {
		if c.inForce {
			continue
		}
		if c.paused = false; c.below {
			c.end(c.to)
		}
	}
}

// crossing returns the crossings of a threshold; nil beyond the bound.
func (h *history) crossing(t *eviction.Threshold) *crossing {
	text := printable(t.String(), maxNote)
	for _, c := range h.crossings {
		if c.threshold == text {
			return c
		}
	}
	if h.more = len(h.crossings) == maxCrossings; h.more {
		return nil
	}
	c := &crossing{threshold: text}
	h.crossings = append(h.crossings, c)
	return c
}

func (c *crossing) observe(limit, available signals.Amount, t time.Time, at time.Duration) {
	if c.from.IsZero() {
		c.from = t
	}
	n := len(c.levels)
	isSame := n > 0 && c.wasInForce && c.levels[n-1].value == int64(limit)
	switch {
	case isSame:
		c.levels[n-1].to = at
	case n < maxLevels:
		c.levels = append(c.levels, level{from: at, to: at, value: int64(limit)})
	}
	c.inForce, c.to = true, t
	below := available < limit
	switch {
	case below && !c.below:
		if c.times == 0 {
			c.first, c.least = t, available
		}
		if !c.paused {
			c.times++
		}
		c.since = t
	case !below && c.below:
		c.end(t)
	}
	if c.below, c.paused = below, false; below {
		c.least = min(c.least, available)
	}
}

// end ends a time below the threshold.
func (c *crossing) end(t time.Time) {
	c.total += max(t.Sub(c.since), 0)
	c.last, c.below = t, false
}

// pause notes that checks are missing from here on.
func (h *history) pause() {
	h.available.part++
	for _, c := range h.crossings {
		if c.below {
			c.end(c.to)
			c.paused = true
		}
	}
}

// isCrossed reports whether the signal was below any of its thresholds.
func (h *history) isCrossed() bool {
	for _, c := range h.crossings {
		if c.times > 0 {
			return true
		}
	}
	return false
}

// level is an amount of a threshold, from its first check to its last one.
type level struct {
	from, to time.Duration
	value    int64
}

// presence is when something was the case.
type presence struct {
	columns [columns]bool
	count   int
	first   time.Time
	total   time.Duration

	held  bool // in the last check
	since time.Time
	at    time.Duration
}

// mark notes an instant.
func (p *presence) mark(t time.Time, at, span time.Duration) {
	if p.count++; p.count == 1 {
		p.first = t
	}
	p.columns[columnOf(at, span, columns)] = true
}

// hold notes whether something is the case since the last call, and now.
func (p *presence) hold(is bool, t time.Time, at, span time.Duration) {
	if is && p.held {
		for i := columnOf(p.at, span, columns); i <= columnOf(at, span, columns); i++ {
			p.columns[i] = true
		}
		p.total += max(t.Sub(p.since), 0)
	}
	if is && !p.held {
		p.mark(t, at, span)
	}
	p.held, p.since, p.at = is, t, at
}

// bars returns the first and the last column of each connected part.
func (p *presence) bars() (all [][2]int) {
	for i, is := range p.columns {
		switch n := len(all); {
		case !is:
		case n > 0 && all[n-1][1] == i-1:
			all[n-1][1] = i
		default:
			all = append(all, [2]int{i, i})
		}
	}
	return all
}
