package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/recording"
)

// Decisions of the log by which the arming of an agent is known.
const armed, disarmed = "armed", "disarmed"

// Tracker receives the entries of a recording in their order, and returns the state behind the last one.
type Tracker struct {
	header   *recording.Header // nil: none yet
	config   *config.Agent     // nil: it cannot be read
	problem  string            // why not
	policies map[signals.Layout]*eviction.Policy

	check     *recording.Check
	lost      uint64
	periodic  time.Time   // the last periodic check, by the time of day
	passed    signals.Set // in it: signals of thresholds that are met and have their grace periods passed
	histories [signals.Count]history
	usage     *recording.Usage
	growth    map[string]growth // by UID
	decisions []Decision        // the latest last
	arming    string
}

// NewTracker returns a tracker without entries.
func NewTracker() *Tracker { return &Tracker{growth: map[string]growth{}} }

// Add adds an entry. It stores what it needs of it.
func (t *Tracker) Add(e *recording.Entry) {
	switch {
	case e.Header != nil:
		t.begin(e.Header)
	case e.Check != nil:
		t.addCheck(e.Check)
	case e.Usage != nil:
		t.addUsage(e.Usage)
	case e.Decision != nil:
		t.addDecision(e.Decision)
	}
}

// begin begins a segment, and maybe a run: earlier values do not count in it.
func (t *Tracker) begin(h *recording.Header) {
	before := t.header
	if t.header = h; before == nil || !h.SameRun(before) {
		*t = Tracker{header: h, growth: map[string]growth{}, decisions: t.decisions}
	} else if bytes.Equal(h.Config, before.Config) {
		return
	}
	t.config, t.problem, t.policies = nil, "", map[signals.Layout]*eviction.Policy{}
	c, err := config.ParseFile(h.Config)
	if err != nil {
		t.problem = strings.Join(strings.Fields(err.Error()), " ")
		return
	}
	t.config = c
}

// policy returns the policy of the last check; nil if the configuration cannot be read.
func (t *Tracker) policy() *eviction.Policy {
	if t.config == nil || t.check == nil {
		return nil
	}
	layout := t.check.Layout
	p, known := t.policies[layout]
	if !known {
		var err error
		if p, err = t.config.Policy(layout); err != nil {
			t.problem = strings.Join(strings.Fields(err.Error()), " ")
		}
		t.policies[layout] = p
	}
	return p
}

func (t *Tracker) addCheck(c *recording.Check) {
	t.check = c
	t.lost += c.Lost
	if c.Snapshot.Kind != signals.Periodic {
		return
	}
	t.periodic, t.passed = c.At(), c.Met
	for s := range signals.All {
		t.histories[s].add(&c.Snapshot.Node[s])
	}
}

func (t *Tracker) addUsage(u *recording.Usage) {
	t.usage = u
	present := make(map[string]bool, len(u.Pods))
	for i := range u.Pods {
		p := &u.Pods[i]
		present[p.Pod.UID] = true
		if bytes := p.Values[recording.WorkingSet]; bytes != recording.Unknown {
			t.growth[p.Pod.UID] = t.growth[p.Pod.UID].with(u.At, bytes)
		}
	}
	for uid := range t.growth {
		if !present[uid] {
			delete(t.growth, uid)
		}
	}
}

// addDecision adds a line of the decision log. Lines of another form are left out.
func (t *Tracker) addDecision(d *recording.Decision) {
	var r decisionlog.Record
	if json.Unmarshal(d.Line, &r) != nil || r.Decision == "" || r.Decision == "check" {
		return
	}
	if r.Decision == armed || r.Decision == disarmed {
		t.arming = string(r.Decision)
	}
	if len(t.decisions) == maxDecisions {
		t.decisions = slices.Delete(t.decisions, 0, 1)
	}
	subject := cmp.Or(r.Threshold, r.Signal, r.LimitedBy)
	reason := strings.TrimPrefix(r.Reason, subject+": ") // it is shown once
	if signal, err := signals.Parse(r.Signal); err == nil && len(r.Consumers) > 0 {
		reason = "held by " + r.Consumers[0].Text(signal.Definition().Unit) + "; " + reason
	}
	// Copies, since the other texts of a line would stay in memory with a part of it.
	t.decisions = append(t.decisions, Decision{d.At.Add(d.Clock), Printable(string(r.Decision), maxWord), Printable(r.Pod, maxName),
		Printable(subject, maxWord), Printable(reason, maxReason)})
}

// State returns the state at a time, by the node's clock.
func (t *Tracker) State(now time.Time) *State {
	s := &State{Header: document.NewHeader(kind), Time: now.UTC(), Arming: t.arming, Conditions: []string{}, Signals: []Signal{}, Pods: []Pod{}, Decisions: []Decision{}}
	if t.header != nil {
		s.Node, s.Version = t.header.Node, t.header.Version
	}
	for _, d := range slices.Backward(t.decisions) {
		d.Time = d.Time.UTC()
		s.Decisions = append(s.Decisions, d)
	}
	t.describeCheck(s)
	t.describePods(s)
	t.note(s)
	s.clean()
	return s
}

// describeCheck sets what follows from the last check.
func (t *Tracker) describeCheck(s *State) {
	c := t.check
	if c == nil {
		return
	}
	s.Check = &Check{Time: c.At().UTC(), Kind: c.Snapshot.Kind.String()}
	s.Conditions = c.Conditions.Names()
	p := t.policy()
	if p == nil {
		return
	}
	period := t.config.MonitoringPeriod
	s.Check.Interval = millis(p.Interval(&c.Snapshot, t.config.FillRate(), period))
	if !t.periodic.IsZero() {
		s.Check.NextPeriodic = t.periodic.Add(period).UTC()
	}
	for i := range p.Thresholds {
		s.Signals = append(s.Signals, t.signal(&p.Thresholds[i]))
	}
	s.Next = t.next(p)
}

// signal returns a threshold with the last observation of its signal.
func (t *Tracker) signal(of *eviction.Threshold) Signal {
	o := &t.check.Snapshot.Node[of.Signal]
	s := Signal{Signal: of.Signal.String(), Kind: "soft", Configured: of.String()}
	if of.Hard() {
		s.Kind = "hard"
	}
	if !o.Known {
		s.Unknown = cmp.Or(o.Cause, "it was not observed")
		return s
	}
	at := of.Value.Of(o.Capacity).Value
	s.Available, s.Capacity, s.At, s.Margin = number(o.Available), number(o.Capacity), number(at), number(o.Available.Plus(-at))
	s.Below = o.Available < at
	rate, left := t.check.Snapshot.Rates[of.Signal], o.Headroom()
	if !of.Signal.OfMemory() {
		rate = t.histories[of.Signal].rate()
	}
	if rate.Over <= 0 {
		return s
	}
	s.Rate = number(signals.Amount(rate.PerSecond()))
	if lasts, falling := rate.TimeToExhaustion(left); falling {
		ms := millis(lasts)
		s.Exhaustion = &ms
	}
	return s
}

// describePods sets the pods with the most memory.
func (t *Tracker) describePods(s *State) {
	if t.usage == nil {
		return
	}
	s.Measured, s.PodCount = t.usage.At.Add(t.usage.Clock).UTC(), len(t.usage.Pods)
	order := make([]*recording.PodUsage, len(t.usage.Pods))
	for i := range t.usage.Pods {
		order[i] = &t.usage.Pods[i]
	}
	slices.SortFunc(order, func(a, b *recording.PodUsage) int {
		return cmp.Or(-cmp.Compare(a.Values[recording.WorkingSet], b.Values[recording.WorkingSet]), cmp.Compare(a.Pod.Key(), b.Pod.Key()), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	for _, p := range order[:min(len(order), maxPods)] {
		s.Pods = append(s.Pods, Pod{Pod: p.Pod.Key(), Memory: value(p.Values[recording.WorkingSet]), Request: int64(p.Pod.MemoryRequest.Value), Growth: t.growth[p.Pod.UID].perSecond(),
			Tasks: value(p.Values[recording.Tasks]), Disk: value(p.Values[recording.Disk]), Priority: p.Pod.Priority, Protection: p.Pod.Protection.String()})
	}
}

// note adds the missing parts to the notes.
func (t *Tracker) note(s *State) {
	add := func(is bool, format string, args ...any) {
		if is {
			s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
		}
	}
	add(t.header == nil, "Nothing is recorded yet.")
	add(t.problem != "", "The configuration of the agent cannot be read, so that its thresholds are unknown: %s.", t.problem)
	add(t.header != nil && t.check == nil, "No check is recorded yet.")
	add(t.usage == nil && t.check != nil, "The usage of pods is not recorded yet.")
	add(t.lost > 0, "%d checks or decisions were not recorded: the disk is full or too slow.", t.lost)
	if t.check != nil && t.config != nil {
		age := s.Time.Sub(t.check.At())
		add(age > 3*t.config.MonitoringPeriod, "The last recorded check is %s old: the agent does not run, or its disk is full or too slow.", age.Round(time.Second))
	}
}

func number(a signals.Amount) *int64 { n := int64(a); return &n }

// value returns a value of a usage; nil if it is unknown.
func value(n int64) *int64 {
	if n == recording.Unknown {
		return nil
	}
	return &n
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
