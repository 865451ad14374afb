package clusterstatus

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/vitals"
)

// State is the state of a node's agent.
type State string

// The states of agents.
const (
	Armed    State = "armed"
	Disarmed State = "disarmed" // it only reports its decisions
	Silent   State = "silent"   // it does not renew its lease
	Missing  State = "missing"  // it has no lease
)

// Row is the state of one node.
type Row struct {
	Name         string    `json:"name"`
	Attention    string    `json:"attention"` // see attentions
	Agent        State     `json:"agent"`
	Reason       string    `json:"reason,omitempty"` // of being armed or disarmed
	Signals      []Signal  `json:"signals"`
	Conditions   []string  `json:"conditions"`
	LastEviction *Eviction `json:"lastEviction,omitempty"`
	Findings     []string  `json:"findings"`
	Version      string    `json:"version,omitempty"`
	Pod          string    `json:"pod,omitempty"`        // of the agent
	Thresholds   string    `json:"thresholds,omitempty"` // a digest, equal for equal thresholds
	LastCheck    time.Time `json:"lastCheck,omitzero"`
	Heartbeat    time.Time `json:"lastHeartbeat,omitzero"`
	Created      time.Time `json:"created,omitzero"`

	readings []vitals.Reading
}

// Signal is a signal with one of its thresholds, in the unit of the signal. Without amounts it is
// unknown.
type Signal struct {
	Signal    string `json:"signal"`
	Kind      string `json:"kind,omitempty"` // hard or soft
	Available *int64 `json:"available,omitempty"`
	Threshold *int64 `json:"threshold,omitempty"`
	Below     bool   `json:"below"`
}

// Eviction is the last eviction on a node.
type Eviction struct {
	Time  time.Time `json:"time"`
	Pod   string    `json:"pod"`
	Cause string    `json:"cause"`
}

func rowOf(n *Node, now time.Time) Row {
	r := Row{Name: n.Name, Agent: n.State(now), Created: n.Created, Signals: []Signal{}, Conditions: slices.Clone(n.Conditions), Findings: []string{}}
	if a := n.Agent; a != nil {
		r.addAgent(a)
	}
	slices.Sort(r.Conditions)
	if r.Conditions = slices.Compact(r.Conditions); r.Conditions == nil {
		r.Conditions = []string{}
	}
	for _, a := range attentions {
		if a.needed(&r) {
			r.Attention = a.code
			break
		}
	}
	return r
}

func (r *Row) addAgent(a *Agent) {
	r.Version, r.Pod, r.Thresholds, r.LastCheck, r.Heartbeat = a.Version, a.Pod, a.Thresholds, a.LastCheck, a.Renewed
	r.Findings = append(r.Findings, a.Findings...)
	if e := a.LastEviction; !e.Time.IsZero() {
		r.LastEviction = &Eviction{e.Time, e.Pod, e.Cause}
	}
	if r.Agent == Silent {
		return
	}
	r.Reason = a.Reason
	r.Conditions = append(r.Conditions, a.Conditions...)
	r.readings = a.Readings
	for i := range a.Readings {
		r.Signals = append(r.Signals, signalOf(&a.Readings[i]))
	}
}

func signalOf(r *vitals.Reading) Signal {
	s := Signal{Signal: r.Signal.String(), Below: r.Below()}
	if r.Known {
		available, threshold := int64(r.Available), int64(r.Threshold)
		s.Available, s.Threshold, s.Kind = &available, &threshold, "hard"
		if r.Soft {
			s.Kind = "soft"
		}
	}
	return s
}

// attentions are in order of urgency: a node needs the first that applies.
var attentions = []struct {
	code   string
	needed func(*Row) bool
}{
	{"pressure-unprotected", func(r *Row) bool { return r.Agent != Armed && r.pressed() }},
	{"agent-silent", func(r *Row) bool { return r.Agent == Silent }},
	{"agent-missing", func(r *Row) bool { return r.Agent == Missing }},
	{"signal-unknown", func(r *Row) bool {
		return slices.ContainsFunc(r.readings, func(s vitals.Reading) bool { return !s.Known })
	}},
	{"pressure", (*Row).pressed},
	{"node-missing", func(r *Row) bool { return r.Created.IsZero() }},
	{"node-not-ready", func(r *Row) bool { return slices.Contains(r.Conditions, NotReady) }},
	{"findings", func(r *Row) bool { return len(r.Findings) > 0 }},
	{"near-threshold", func(r *Row) bool {
		return slices.ContainsFunc(r.readings, func(s vitals.Reading) bool { return near(&s) })
	}},
	{"agent-disarmed", func(r *Row) bool { return r.Agent == Disarmed }},
	{"none", func(*Row) bool { return true }},
}

// urgency returns the place of a row's attention, the most urgent first.
func (r *Row) urgency() int {
	for i := range attentions {
		if attentions[i].code == r.Attention {
			return i
		}
	}
	return len(attentions)
}

// pressed reports whether the node is under pressure: by a condition, or by a hard threshold that is
// met.
func (r *Row) pressed() bool {
	return slices.ContainsFunc(r.Conditions, func(c string) bool { return c != NotReady }) ||
		slices.ContainsFunc(r.readings, func(s vitals.Reading) bool { return !s.Soft && s.Below() })
}

// nearRatio is the available amount, in thresholds, below which a signal is near its threshold.
const nearRatio = 2

func near(s *vitals.Reading) bool { return s.Known && ratio(s) < nearRatio }

// ratio returns the available amount in thresholds. An unknown signal counts as at its threshold.
func ratio(s *vitals.Reading) float64 {
	switch {
	case !s.Known:
		return 1
	case s.Threshold > 0:
		return float64(s.Available) / float64(s.Threshold)
	case s.Below():
		return 0
	}
	return math.MaxFloat64
}
