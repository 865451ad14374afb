package trial

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/recording"
)

// line is a line of the decision log: that of a decision, or of an OOM kill.
type line struct {
	decisionlog.Record
	Container string `json:"container"` // of an OOM kill, as the next ones
	LimitOf   string `json:"limitOf"`
	Kills     int64  `json:"kills"`
}

// decision is an eviction that Plimsoll decided, and its matches.
type decision struct {
	at, last  time.Time
	repeats   int
	uid, pod  string
	dryRun    bool
	withdrawn bool
	cause     string // the signal, or the local-storage limit
	resource  string
	threshold string
	available *int64
	least     *int64
	choice    *decisionlog.Choice // nil: it is not recorded
	frees     *int64              // amount that the end of the pod frees, nil: it is not recorded
	since     time.Time           // the begin of its pod at the earliest; zero: unknown
	left      *departure          // the end of its pod at that time or later; nil: none
	place     Place
	outcome   Outcome
	reason    string
	other     *Other
	conflict  string // why the eviction of its pod by another program is no match
}

// limit stands for a local-storage limit of a pod, among resources.
const limit = "limit"

// maxPlaces bounds the places of a choice. An agent writes six.
const maxPlaces = 8

// addLine adds a line of the decision log.
func (n *node) addLine(l *line, t time.Time, at Place) {
	if n.tooMany {
		return
	}
	n.noteTime(t)
	switch verb := string(l.Decision); verb {
	case "evict", "would-evict", "soft-evict":
		if l.UID == "" { // it would be a decision about every other pod without one
			n.skip()
			return
		}
		n.addDecision(decisionOf(&l.Record, t, at))
	case "withdrawn":
		n.addWithdrawal(l.UID, t)
	case "terminated":
		if len(l.Failed) > 0 {
			n.addWithdrawal(l.UID, t)
		}
	case "oom-kill":
		n.addKill(l, t, at)
	case "armed", "disarmed":
		n.noteArming(verb)
	case "none-helps", "limited", "ineffective", "failed", "blocked", "pending", "recovered":
		if l.Repeated == "" && !n.full(len(n.refusals), 1) {
			n.refusals = append(n.refusals, refusal{t, verb, resourceOf(l.Signal), printable(l.Reason), at})
		}
	}
}

// addWithdrawal adds that a soft eviction did not happen.
func (n *node) addWithdrawal(uid string, t time.Time) {
	if !n.full(len(n.withdrawals), 1) {
		n.withdrawals = append(n.withdrawals, moment{t, uidOf(uid)})
	}
}

func (n *node) noteArming(state string) {
	if !slices.Contains(n.arming, state) {
		n.arming = append(n.arming, state)
	}
}

// resourceOf returns the resource of a signal, unknown for any other name.
func resourceOf(signal string) string {
	s, err := signals.Parse(signal)
	if err != nil {
		return unknown
	}
	return string(s.Definition().Resource)
}

// decisionOf returns the decision of a record.
func decisionOf(r *decisionlog.Record, t time.Time, at Place) *decision {
	d := &decision{at: t, last: t, uid: uidOf(r.UID), dryRun: r.Decision == "would-evict", available: r.Available, place: at}
	d.setCause(r)
	r.Ranking, r.Failed, r.Stalls, r.Conditions, r.Unknown = nil, nil, nil, nil, nil
	if c := r.Choice; c != nil {
		c.Places = slices.Clone(c.Places[:min(len(c.Places), maxPlaces)]) // without the memory of the others
	}
	names, others := r.Texts()
	for _, name := range names {
		*name = printableName(*name)
	}
	for _, text := range others {
		*text = printable(*text)
	}
	d.pod, d.threshold, d.cause = r.Pod, r.Threshold, printable(d.cause)
	c := r.Choice
	if c == nil || len(c.Places) == 0 {
		return d
	}
	c.SetOrder()
	d.choice = c
	if evicted, _ := r.Evicted(); evicted != nil {
		d.frees = &evicted.Frees
	}
	return d
}

// setCause sets what the pod was evicted for. The message has the resource. Without a choice the signal may be
// that of another decision of the check, if the pod was above a limit of its own.
func (d *decision) setCause(r *decisionlog.Record) {
	d.cause = r.Signal
	if r.Choice != nil {
		d.cause = cmp.Or(r.Choice.Cause, r.Signal)
	}
	resource, isLimit := eviction.CauseOf(r.Message)
	switch {
	case isLimit || isLimitOf(d.cause):
		d.resource = limit
	case resource != "":
		d.resource = string(resource)
	default:
		d.resource = resourceOf(d.cause)
	}
	if d.resource == limit && !isLimitOf(d.cause) {
		d.cause, r.Threshold, d.available = limit, "", nil
	}
}

// isLimitOf reports whether a cause is a local-storage limit.
func isLimitOf(cause string) bool {
	return cause == eviction.EmptyDirStorageLimit || cause == eviction.PodStorageLimit || cause == eviction.ContainerStorageLimit
}

// addDecision adds a decision.
func (n *node) addDecision(d *decision) {
	if n.full(len(n.decisions), decisionFacts) {
		return
	}
	n.decisions = append(n.decisions, d)
	n.noteArming(map[bool]string{true: "disarmed", false: "armed"}[d.dryRun])
	r := &n.run
	if len(r.open) == maxOpen {
		r.open = slices.Delete(r.open, 0, 1)
	}
	r.open = append(r.open, d)
}

// addEviction adds the eviction of a check. With its line, both are one decision.
func (n *node) addEviction(c *recording.Check, t time.Time, at Place) {
	e, s := c.Act.Evicted, &c.Snapshot
	r := decisionlog.Record{Decision: "evict", Signal: e.Cause, Pod: e.Pod.Key(), UID: e.Pod.UID, Message: e.Message}
	if e.DryRun {
		r.Decision = "would-evict"
	}
	if cause, err := signals.Parse(e.Cause); err == nil && s.Node[cause].Known {
		r.Available = new(int64(s.Node[cause].Available))
	}
	n.addDecision(decisionOf(&r, t, at))
	n.observe(c, t)
}
