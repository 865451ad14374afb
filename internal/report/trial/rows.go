package trial

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/document"
)

// Report returns the comparison. It returns [ErrTooMany] if a node has more facts than are compared at once.
func (r *Reading) Report() (*Report, error) {
	o := r.options
	report := &Report{Header: document.NewHeader("TrialReport"), WindowSeconds: o.Window.Seconds(), Nodes: []Node{}, Decisions: []Decision{}, Evictions: []Eviction{}, OOMKills: []Kill{}, Missing: []string{}}
	if len(r.nodes) > maxNodes {
		return nil, fmt.Errorf("compare %d nodes: %w", len(r.nodes), ErrTooMany)
	}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		if n.tooMany {
			return nil, fmt.Errorf("compare the records of node %s: %w", name, ErrTooMany)
		}
		if n.conclude(); n.pairs() > maxPairs {
			return nil, fmt.Errorf("compare the records of node %s: %w", name, ErrTooMany)
		}
		report.addNode(n)
		report.add(match(n), window(o.Begin, o.End))
		r.noteNode(n)
	}
	if report.Missing = append(report.Missing, r.notes...); r.unread > 0 {
		report.Missing = append(report.Missing, fmt.Sprintf("%d further notes are left out.", r.unread))
	}
	report.sort()
	if !o.Begin.IsZero() {
		report.Begin = o.Begin
	}
	if !o.End.IsZero() {
		report.End = o.End
	}
	return report, nil
}

// window returns whether a time is between two others; a zero one bounds nothing.
func window(begin, end time.Time) func(time.Time) bool {
	return func(t time.Time) bool {
		return (begin.IsZero() || !t.Before(begin)) && (end.IsZero() || !t.After(end))
	}
}

// noteNode notes what the records of a node do not have.
func (r *Reading) noteNode(n *node) {
	note := func(is bool, format string, args ...any) {
		if is {
			r.note("Node " + n.name + ": " + fmt.Sprintf(format, args...))
		}
	}
	note(len(n.checks) == 0, "no check is recorded. What Plimsoll decided is not known as a whole.")
	note(len(n.usages) == 0, "no usage of pods is recorded. Evictions by other programs are not known.")
	note(len(n.checks) > 1, "checks are missing %d times.", len(n.checks)-1)
	note(len(n.usages) > 1, "the usage of pods is missing %d times.", len(n.usages)-1)
	note(len(n.usages) > 0 && total(n.counted) < total(n.usages), "OOM kills of the kernel are not counted all the time.")
	note(n.lostEnds > 0, "the ends of %d pods are not recorded.", n.lostEnds)
	note(n.resets > 0, "the time of day was set %d times. Times near it are not certain.", n.resets)
	note(n.overlaps > 0, "checks of two agents overlap %d times. Two agents ran, or two nodes have that name: compare each by itself.", n.overlaps)
	note(n.undecoded > 0, "%d records are in a form that this version cannot read.", n.undecoded)
}

func (r *Report) addNode(n *node) {
	r.Nodes = append(r.Nodes, Node{Name: n.name, Begin: n.from, End: n.to, Files: n.files, Arming: append([]string{}, n.arming...),
		Checks: total(n.checks).Seconds(), Usages: total(n.usages).Seconds()})
	if !n.from.IsZero() && (r.Begin.IsZero() || n.from.Before(r.Begin)) {
		r.Begin = n.from
	}
	if n.to.After(r.End) {
		r.End = n.to
	}
}

// add adds the rows of a node within a time.
func (r *Report) add(m *matching, in func(time.Time) bool) {
	for _, d := range m.decisions {
		if in(d.at) {
			row := d.row(m.name)
			r.Decisions = append(r.Decisions, row)
			r.Summary.addDecision(&row)
		}
	}
	for _, e := range m.others {
		if !in(e.to) {
			continue
		}
		row := Eviction{From: e.from, Time: e.to, Node: m.name, Pod: e.pod, UID: printable(e.uid), Resource: e.resource, Outcome: e.outcome, Reason: e.reason, Record: e.place}
		if e.decision != nil {
			row.Decision = e.decision.asOther()
		}
		r.Evictions = append(r.Evictions, row)
		r.Summary.Evictions.add(e.outcome)
	}
	for i := range m.kills {
		if in(m.kills[i].to) {
			row := m.judge(&m.kills[i])
			r.OOMKills = append(r.OOMKills, row)
			r.Summary.OOMKills.add(&row)
		}
	}
}

func (d *decision) row(node string) Decision {
	row := Decision{Time: d.at, Repeats: d.repeats, Node: node, Pod: d.pod, UID: printable(d.uid), DryRun: d.dryRun, Cause: d.cause, Resource: d.resource, Threshold: d.threshold,
		Available: d.available, Least: d.least, Outcome: d.outcome, Reason: d.reason, Other: d.other, Record: d.place}
	if d.repeats > 0 {
		row.Last = d.last
	}
	if d.choice != nil {
		row.Kubelet = d.choice.Kubelet
	}
	return row
}

// sort puts the rows in the order of time.
func (r *Report) sort() {
	slices.SortStableFunc(r.Decisions, func(a, b Decision) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node)) })
	slices.SortStableFunc(r.Evictions, func(a, b Eviction) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node)) })
	slices.SortStableFunc(r.OOMKills, func(a, b Kill) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node)) })
}

func (s *Summary) addDecision(d *Decision) {
	c := &s.Armed
	if d.DryRun {
		c = &s.DryRun
	}
	c.Total++
	switch d.Outcome {
	case SamePod:
		c.SamePod++
	case AnotherPod:
		c.AnotherPod++
	case OOMKill:
		c.OOMKill++
	case PlimsollOnly:
		c.PlimsollOnly++
	case Withdrawn:
		c.Withdrawn++
	default:
		c.Unknown++
	}
}

func (c *Evictions) add(o Outcome) {
	c.Total++
	switch o {
	case SamePod:
		c.SamePod++
	case AnotherPod:
		c.AnotherPod++
	case OthersOnly:
		c.OthersOnly++
	default:
		c.Unknown++
	}
}

// add adds the processes of a record: a line of the decision log may stand for many.
func (c *OOMKills) add(k *Kill) {
	of := &c.Unknown
	switch k.Outcome {
	case Avoidable:
		of = &c.Avoidable
		if k.UID != k.Decision.UID {
			c.OtherPods = sum(c.OtherPods, k.Processes)
		}
	case Despite:
		of = &c.Despite
	case NotDecided:
		of = &c.NotDecided
	case OwnLimit:
		of = &c.OwnLimit
	}
	c.Total, *of = sum(c.Total, k.Processes), sum(*of, k.Processes)
}
