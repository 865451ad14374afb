package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// maxPlaces is the number of the first places of a ranking that are listed. The evicted pod and the next
// one follow if they are behind.
const maxPlaces = 10

// choice is the ranking by which a pod was chosen, with the figures of that moment.
type choice struct {
	ranked        int
	places        []place
	notNext       string
	kubelet       string // its choice; empty: no pod
	sameAsKubelet bool
}

// place is a pod of a ranking.
type place struct {
	number   int
	pod      string
	priority string
	request  string // "none" for inodes and PIDs
	usage    string
	exceeds  string
	frees    string
	note     string // why it was passed over, or what else is of importance
	chosen   bool

	passed bool
	key    ranking.Key
}

// choose ranks the measured pods as the check did, and explains the choice. It returns nil if the evicted
// pod was not measured.
func choose(measured []signals.Candidate, layout signals.Layout, s signals.Signal, x *evicted, pod *signals.Pod) *choice {
	ranked := ranking.Rank(measured, s, s.In(layout).Measure)
	at := slices.IndexFunc(ranked, func(r ranking.Ranked) bool { return r.Pod.UID == pod.UID && r.Pod.Key() == pod.Key() })
	if at < 0 {
		return nil
	}
	c, unit := &choice{ranked: len(ranked)}, s.Definition().Unit
	var chosen, next *place
	for i := range ranked {
		isListed := i < maxPlaces || i == at
		if !isListed && (i < at || next != nil) {
			continue
		}
		p := placeOf(i+1, &ranked[i], unit, x)
		switch p.chosen = i == at; {
		case p.chosen:
			chosen, p.passed = &p, false
		case i < at && !p.passed && pod.EndsBy.IsZero():
			p.note = printable(strings.TrimPrefix(p.note+", passed over: "+cmp.Or(limitText(x.limit), "why is not recorded"), ", "), maxNote)
		}
		isNext := i > at && next == nil && !p.passed
		if isNext {
			next = &p
		}
		if isListed || isNext {
			c.places = append(c.places, p)
		}
	}
	switch {
	case !pod.EndsBy.IsZero():
		c.notNext = "The pod was being deleted already and held what was missing. Such a pod is ended before others."
	case next == nil:
		c.notNext = "No other pod could have been evicted in its place."
	default:
		c.notNext = fmt.Sprintf("Not %s in its place: %s.", quote(next.pod), difference(chosen, next, unit))
	}
	if k := kubeletsChoice(measured, layout, s); k != nil {
		c.kubelet, c.sameAsKubelet = printableName(k.Key()), k.UID == pod.UID && k.Key() == pod.Key()
	}
	return c
}

// limitText names a limit on evictions.
func limitText(limit string) string {
	if limit == "" {
		return ""
	}
	return "a limit on evictions (" + limit + ")"
}

// placeOf returns the place of a pod, with the reasons that the line and the check have.
func placeOf(number int, r *ranking.Ranked, unit signals.Unit, x *evicted) place {
	k := &r.Key
	p := place{number: number, pod: printableName(r.Pod.Key()), priority: strconv.Itoa(int(k.Priority)), request: "none", usage: "not measured", exceeds: "unknown", frees: "unknown", key: *k}
	if k.Order == ranking.ByMemory || k.Order == ranking.ByDisk {
		p.request = short(requestOf(r), unit)
	}
	if !k.NoStats {
		p.usage, p.exceeds = short(k.Usage, unit), "no"
		if k.Incomplete != "" {
			p.usage = "at least " + p.usage
		}
		if over := k.Usage - k.Request; k.Exceeds && over > 0 {
			p.exceeds = "yes, by " + short(over, unit)
		} else if k.Exceeds {
			p.exceeds = "assumed"
		}
	}
	if r.Relief.Known {
		p.frees = short(r.Relief.Amount, unit)
	}
	var notes []string
	if k.Protection != signals.Unprotected {
		notes, p.passed = append(notes, "passed over: "+k.Protection.String()), true
	}
	if k.Last {
		notes = append(notes, "asked to go last")
	}
	if k.EvictionPriority != 0 {
		notes = append(notes, fmt.Sprintf("eviction priority %d", k.EvictionPriority))
	}
	for _, f := range x.failed {
		if f.Pod == p.pod {
			notes, p.passed = append(notes, "could not be ended: "+f.Reason), true
		}
	}
	for _, reason := range x.reasons {
		if reason.Pod == p.pod {
			extra := strings.TrimPrefix(reason.Reason, printable(k.Reason(), maxNote))
			if strings.Contains(extra, "too small to help") {
				p.passed = true
			}
			if extra = strings.TrimPrefix(extra, ", "); extra != "" {
				notes = append(notes, extra)
			}
			break
		}
	}
	p.note = printable(strings.Join(notes, ", "), maxNote)
	return p
}

// requestOf returns the request of a pod, which the key of an unmeasured one lacks.
func requestOf(r *ranking.Ranked) signals.Amount {
	if r.Key.Order == ranking.ByDisk {
		return r.Pod.StorageRequest.Value
	}
	return r.Pod.MemoryRequest.Value
}

// kubeletsChoice returns the pod that a kubelet evicts for the same signal, or nil. It protects static,
// mirror and critical pods alone, and has neither eviction priorities nor pods that go last.
func kubeletsChoice(measured []signals.Candidate, layout signals.Layout, s signals.Signal) *signals.Pod {
	known := make([]signals.Candidate, len(measured))
	for i, c := range measured {
		pod := *c.Pod
		pod.Last, pod.EvictionPriority = false, 0
		known[i] = signals.Candidate{Pod: &pod, Usage: c.Usage}
	}
	for _, r := range ranking.Rank(known, s, s.In(layout).Measure) {
		switch r.Pod.Protection {
		case signals.Static, signals.Mirror, signals.Critical:
		default:
			return r.Pod
		}
	}
	return nil
}

// difference returns the first criterion of the ranking by which two pods differ.
func difference(first, second *place, unit signals.Unit) string {
	a, b, one, other := &first.key, &second.key, quote(first.pod), quote(second.pod)
	byPriority := func() string {
		switch {
		case a.Priority != b.Priority:
			return fmt.Sprintf("the priority of %s is %d, and that of %s is %d", one, a.Priority, other, b.Priority)
		case a.EvictionPriority != b.EvictionPriority:
			return fmt.Sprintf("at equal priority, the eviction priority of %s is %d, and that of %s is %d", one, a.EvictionPriority, other, b.EvictionPriority)
		}
		return ""
	}
	priority := byPriority()
	switch {
	case a.Last != b.Last:
		return other + " asked to go last"
	case a.Order == ranking.ByPIDs && priority != "":
		return priority
	case a.NoStats != b.NoStats:
		return "nothing was measured of " + one
	case a.Order == ranking.ByInodes && a.Exceeds != b.Exceeds:
		return fmt.Sprintf("%s uses inodes, and %s none", one, other)
	case a.Order != ranking.ByPIDs && a.Exceeds != b.Exceeds:
		return fmt.Sprintf("%s exceeds its request, and %s does not", one, other)
	case priority != "":
		return priority
	case (a.Incomplete != "") != (b.Incomplete != ""):
		return one + " could not be measured completely"
	case a.Usage-a.Request == b.Usage-b.Request:
		return "all criteria are equal, and the order of the UIDs decides"
	case a.Order == ranking.ByInodes || a.Order == ranking.ByPIDs:
		return fmt.Sprintf("%s uses %s, and %s %s", one, amount(a.Usage, unit), other, amount(b.Usage, unit))
	case a.Exceeds:
		return fmt.Sprintf("%s is further above its request: by %s, and %s by %s", one, short(a.Usage-a.Request, unit), other, short(b.Usage-b.Request, unit))
	}
	return fmt.Sprintf("%s is nearer to its request: %s below, and %s %s below", one, short(a.Request-a.Usage, unit), other, short(b.Request-b.Usage, unit))
}
