package trial

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// sameTime is the maximum difference of the times of one fact in two files: the time of day in a recording is rounded.
	sameTime = 50 * time.Millisecond
	// repeatPause is the maximum time between two decisions in dry run that count as one. A dry run is repeated every
	// 30 s while the threshold stays met.
	repeatPause = 2 * time.Minute
)

// conclude completes the facts: each has its place in the order of time, and occurs once, in however many files it is.
func (n *node) conclude() {
	n.endRun()
	n.addOverlaps()
	n.resets, n.lostEnds = len(n.steps)-n.overlaps, len(n.vanished)
	for _, spans := range []*[]span{&n.checks, &n.usages, &n.counted, &n.steps, &n.vanished} {
		*spans = merged(*spans)
	}
	slices.SortFunc(n.departures, func(a, b departure) int { return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.uid, b.uid)) })
	n.departures = slices.CompactFunc(n.departures, func(a, b departure) bool { return a.to.Equal(b.to) && a.uid == b.uid })
	n.sortKills()
	n.kills = distinctKills(n.kills)
	n.addCounted()
	n.sortKills()
	slices.SortStableFunc(n.refusals, func(a, b refusal) int { return a.at.Compare(b.at) })
	n.concludeDecisions()
	slices.Sort(n.arming)
}

// addOverlaps adds the times at which two runs checked: two agents run, or two nodes have one name. What one of them
// did is no match of what the other decided, so that these times are not certain.
func (n *node) addOverlaps() {
	type part struct {
		span
		run int
	}
	parts := make([]part, len(n.checks))
	for i, s := range n.checks {
		parts[i] = part{s, n.checkRuns[i]}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to), cmp.Compare(a.run, b.run))
	})
	last := part{run: -1}    // the part that ends last
	another := part{run: -1} // that of the other runs
	for _, p := range parts {
		of := last
		if p.run == last.run {
			of = another
		}
		if of.run >= 0 && p.from.Before(of.to) {
			end := p.to
			if of.to.Before(end) {
				end = of.to
			}
			n.steps, n.overlaps = append(n.steps, span{p.from, end}), n.overlaps+1
		}
		switch {
		case p.run == last.run && p.to.After(last.to):
			last = p
		case p.run != last.run && p.to.After(last.to):
			last, another = p, last
		case p.run != last.run && p.to.After(another.to):
			another = p
		}
	}
}

// pairs returns the number of facts that are compared with each other.
func (n *node) pairs() int { return len(n.decisions) * (len(n.departures) + len(n.kills)) }

func (n *node) sortKills() {
	slices.SortStableFunc(n.kills, func(a, b kill) int { return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.uid, b.uid)) })
}

// distinctKills returns the kills without those of the same time and the same container as an earlier one. The place of one
// that is in a recording, too, is there: a command reads it by its time.
func distinctKills(kills []kill) []kill {
	type one struct {
		index int // of the first one
		last  time.Time
	}
	known, all := map[string]one{}, kills[:0]
	for _, k := range kills {
		key := k.uid + " " + k.container
		of, is := known[key]
		switch {
		case !is || k.to.Sub(of.last) > sameTime:
			of.index = len(all)
			all = append(all, k)
		case k.recorded && !all[of.index].recorded:
			all[of.index].place, all[of.index].recorded = k.place, true
		}
		of.last = k.to
		known[key] = of
	}
	return all
}

// merged returns spans in order, with those that overlap as one.
func merged(spans []span) (all []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && !s.from.After(all[last].to) {
			if s.to.After(all[last].to) {
				all[last].to = s.to
			}
			continue
		}
		all = append(all, s)
	}
	return all
}

// total returns the time that spans cover.
func total(spans []span) (all time.Duration) {
	for _, s := range spans {
		all += s.to.Sub(s.from)
	}
	return all
}

// endsFrom returns the first of merged spans that ends at a time or later; nil without one.
func endsFrom(spans []span, t time.Time) *span {
	i, _ := slices.BinarySearchFunc(spans, t, func(s span, t time.Time) int { return s.to.Compare(t) })
	if i == len(spans) {
		return nil
	}
	return &spans[i]
}

// within reports whether one of merged spans has all of another one.
func within(spans []span, s span) bool {
	of := endsFrom(spans, s.to)
	return of != nil && !s.from.Before(of.from)
}

// touched reports whether any of merged spans has a moment of another one.
func touched(spans []span, s span) bool {
	of := endsFrom(spans, s.from)
	return of != nil && of.touches(s)
}

// knowsChecks reports whether the checks of a time are recorded, and with them each decision.
func (n *node) knowsChecks(s span) bool { return within(n.checks, s) && !touched(n.steps, s) }

// knowsEnds reports whether the end of each pod in that time is recorded.
func (n *node) knowsEnds(s span) bool {
	return within(n.usages, s) && !touched(n.steps, s) && !touched(n.vanished, s)
}

// knowsKills reports whether each OOM kill in that time is recorded or counted.
func (n *node) knowsKills(s span) bool { return within(n.counted, s) && !touched(n.steps, s) }

// concludeDecisions makes one row of each decision and its repetitions.
func (n *node) concludeDecisions() {
	slices.SortStableFunc(n.decisions, func(a, b *decision) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.uid, b.uid)) })
	last, rows := map[string]*decision{}, n.decisions[:0]
	for _, d := range n.decisions {
		key := d.uid + " " + d.resource
		if d.dryRun {
			key += " dry"
		}
		before := last[key]
		switch {
		case before != nil && d.at.Sub(before.last) <= sameTime:
			before.join(d)
		case before != nil && d.dryRun && d.at.Sub(before.last) <= repeatPause:
			before.join(d)
			before.repeats++
			before.last = d.at
		default:
			rows, last[key] = append(rows, d), d
		}
	}
	n.decisions = rows
	for _, w := range n.withdrawals {
		for _, d := range slices.Backward(rows) {
			if d.uid == w.uid && !d.dryRun && !d.at.After(w.at) {
				d.withdrawn = true
				break
			}
		}
	}
}

// join adds what another record of a decision has beyond the first one.
func (d *decision) join(other *decision) {
	if d.least == nil || other.least != nil && *other.least < *d.least {
		d.least = other.least
	}
	if d.choice == nil && d.at.Sub(other.at).Abs() <= sameTime { // a later choice is that of another time
		d.choice, d.frees, d.place = other.choice, other.frees, other.place
	}
}

// lastRefusal returns the last decision without an eviction in a time, about a resource; nil if there is none. Those that
// only wait count on request.
func (n *node) lastRefusal(s span, resource string, waiting bool) *refusal {
	for i := range slices.Backward(n.refusals) {
		r := &n.refusals[i]
		if r.at.Before(s.from) {
			break
		}
		if r.resource == resource && !r.at.After(s.to) && (waiting || r.verb != "pending") {
			return r
		}
	}
	return nil
}

// sentence returns a sentence about a refusal.
func (r *refusal) sentence() string {
	if r == nil {
		return "No decision of Plimsoll about the resource is recorded in that time."
	}
	text := "Plimsoll decided " + r.verb + " at " + r.at.UTC().Format(time.TimeOnly)
	if r.reason != "" {
		text += ": " + strings.TrimSuffix(r.reason, ".")
	}
	return text + "."
}
