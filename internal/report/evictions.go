package report

import (
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// evicted is an eviction by the agent, or one that a disarmed agent would have made.
type evicted struct {
	at, last time.Time
	repeats  int       // of a dry run
	moment   time.Time // of the check, by the clock that is never set
	uid      string

	pod, cause string
	isLimit    bool // the cause is a local-storage limit of the pod
	soft       bool
	dryRun     bool
	early      bool
	grace      int64  // seconds
	observed   string // what was available
	message    string // of the pod's status

	reasons []podReason // of the line
	failed  []podReason // pods that could not be ended before
	limit   string      // that was in force
	kubelet string      // its choice by the line
	choice  *choice     // nil: the check is not recorded
	results []string
}

// maxResults bounds what followed an eviction.
const maxResults = 4

// eviction returns the eviction of a pod by a check, which may have an entry already. A dry run that
// repeats the previous one is no new entry.
func (r *reading) eviction(moment, t time.Time, uid, pod string, dryRun bool) *evicted {
	if last := r.evictions.latest(); last != nil {
		x := *last
		switch {
		case x.uid != uid || x.pod != pod:
		case x.moment.Equal(moment):
			return x
		case dryRun && x.dryRun:
			x.repeats++
			x.last, x.moment = t, moment
			return x
		}
	}
	x := &evicted{at: t, last: t, moment: moment, uid: uid, pod: pod, dryRun: dryRun}
	r.evictions.add(x)
	if !dryRun {
		r.noteOwn(uid)
	}
	return x
}

// addEvictionLine adds the line of an eviction. The check follows.
func (r *reading) addEvictionLine(l *line, moment, t time.Time) {
	x := r.eviction(moment, t, l.rawUID, l.Pod, l.Decision == wouldVerb)
	if x.repeats > 0 {
		return
	}
	x.cause, x.soft, x.early, x.message = l.Signal, l.Decision == softVerb, l.Check == signals.Early.String(), l.Message
	x.reasons, x.failed, x.limit, x.kubelet = l.Ranking, l.Failed, l.LimitedBy, l.KubeletWouldEvict
	x.note(l.outcome())
}

// addEviction adds the eviction that a check decided.
func (r *reading) addEviction(c *recording.Check, t time.Time) {
	a, s := c.Act, &c.Snapshot
	e := a.Evicted
	x := r.eviction(s.At, t, e.Pod.UID, printableName(e.Pod.Key()), e.DryRun)
	if x.repeats > 0 || x.choice != nil {
		return
	}
	x.cause, x.soft, x.early, x.grace = printable(e.Cause, maxNote), !e.Hard, s.Kind == signals.Early, e.GracePeriod
	x.message = printable(e.Message, maxText)
	if a.Limit != "" {
		x.limit = printable(a.Limit, maxNote)
	}
	if len(x.failed) == 0 {
		for _, f := range a.Failed[:min(len(a.Failed), maxListed)] {
			x.failed = append(x.failed, podReason{printableName(f.Pod.Key()), printable(f.Error, maxNote)})
		}
	}
	cause, err := signals.Parse(e.Cause)
	if x.isLimit = err != nil; x.isLimit {
		return
	}
	if o := &s.Node[cause]; o.Known {
		unit := cause.Definition().Unit
		x.observed = fmt.Sprintf("%s available of %s", amount(o.Available, unit), short(o.Capacity, unit))
	}
	if n := len(a.Measured); n > 0 && a.Acted && a.Signal == cause {
		x.choice = choose(a.Measured[n-1], c.Layout, cause, x, e.Pod)
	}
}

// noteResult adds what followed an eviction, to the latest one of the pod.
func (r *reading) noteResult(l *line, t time.Time) {
	items, _ := r.evictions.all()
	for n := len(items) - 1; n >= 0; n-- {
		x := items[n]
		if x.uid != l.rawUID || x.pod != l.Pod || x.dryRun {
			continue
		}
		text := quote(l.Decision) + " at " + r.moment(t)
		for _, more := range []string{quote(l.Reason), l.outcome()} {
			if more != "" {
				text += ", " + more
			}
		}
		x.note(text)
		return
	}
}

func (x *evicted) note(result string) {
	if result != "" && len(x.results) < maxResults {
		x.results = append(x.results, result)
	}
}

// kind describes how the pod ends.
func (i *Incident) kind(x *evicted) string {
	var parts []string
	switch {
	case x.dryRun:
		parts = append(parts, "dry run: the agent is disarmed, and the pod was not ended")
	case x.soft && x.grace > 0:
		parts = append(parts, fmt.Sprintf("soft, with a grace period of %d s", x.grace))
	case x.soft:
		parts = append(parts, "soft")
	default:
		parts = append(parts, "hard")
	}
	if x.early {
		parts = append(parts, "by an early check")
	} else {
		parts = append(parts, "by a periodic check")
	}
	if x.repeats > 0 {
		parts = append(parts, "repeated "+times(x.repeats)+" until "+i.clock(x.last))
	}
	return strings.Join(parts, ", ")
}

// because returns the cause and what was available.
func (x *evicted) because() string {
	switch {
	case x.isLimit:
		return quote(x.cause) + ", a limit of the pod itself"
	case x.observed != "":
		return quote(x.cause) + ", " + x.observed
	case x.cause == "":
		return "not recorded"
	}
	return quote(x.cause)
}

// notNext explains why this pod and not the next one.
func (x *evicted) notNext() string {
	switch {
	case x.isLimit:
		return "The pod exceeded its own limit. The usage of other pods does not matter."
	case x.choice == nil:
		return "The figures of the ranking are not recorded, so that this pod cannot be compared with the next one."
	}
	return x.choice.notNext
}

// kubeletText returns what a kubelet would have done at the same threshold.
func (x *evicted) kubeletText() string {
	switch {
	case x.isLimit:
		return "A kubelet evicts the same pod, since it exceeds a limit of its own."
	case x.choice != nil && x.choice.kubelet == "":
		return "A kubelet would have evicted no pod."
	case x.choice != nil && x.choice.sameAsKubelet:
		return "A kubelet would have evicted the same pod."
	case x.choice != nil:
		return "A kubelet would have evicted " + quote(x.choice.kubelet) + "."
	case x.kubelet != "":
		return "A kubelet would have evicted " + quote(x.kubelet) + "."
	}
	return "What a kubelet would have done is not recorded."
}
