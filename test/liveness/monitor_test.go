package liveness

import (
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/restraint"
	"plimsoll.dev/plimsoll/signal"
)

// longest is how long a hard threshold may be met before an eviction is tried.
const longest = 40 * time.Second

// A delay is how long a threshold was met, with a pod to evict, before one was tried.
type delay struct {
	took     time.Duration
	signal   signal.Signal
	sequence uint64
}

// A monitor holds what the agent does against what is so on the node. It is called on
// the agent's goroutine.
type monitor struct {
	t              *testing.T
	seed, sequence uint64
	node           *node
	limits         restraint.Policy
	begun          time.Time
	verbose        bool // of one sequence alone

	since   [signal.Count]time.Time // of an obligation
	tried   signal.ConditionSet     // since the look before
	delays  []delay
	counts  map[string]int
	spent   []spent
	owners  map[string]int
	pending map[string]bool // evictions whose end was not told yet
	lines   map[string]string
	failed  time.Time
}

type spent struct {
	at             time.Time
	namespace, uid string
}

func (m *monitor) Save(eviction.Saved) {}

func (m *monitor) fault(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf("seed %d, sequence %d, %s: "+format, append([]any{m.seed, m.sequence, time.Since(m.begun)}, args...)...)
}

// Report implements agent.Reporter.
func (m *monitor) Report(d *agent.Decision) {
	m.counts[string(d.Decision)]++
	if m.verbose {
		m.t.Logf("%s %s %s %s: %s %v", time.Since(m.begun), d.Decision, d.Look, d.Pod, d.Why, d.Failed)
	}
	switch d.Decision {
	case agent.Evicted, agent.Terminating:
		m.pending[d.UID] = true
		m.spent = append(m.spent, spent{d.Time, strings.Split(d.Pod, "/")[0], d.UID})
		m.lines["stand-by"], m.lines["failed"] = "", ""
	case agent.Hurried:
		m.try(d.Signal)
	case agent.Settled, agent.Withdrawn:
		delete(m.pending, d.UID)
	case agent.StoodBy, agent.Held, agent.Failed, agent.Waits:
		m.once(d)
	}
	if d.Decision == agent.Withdrawn {
		for i := len(m.spent) - 1; i >= 0; i-- {
			if m.spent[i].uid == d.UID {
				m.spent = append(m.spent[:i:i], m.spent[i+1:]...)
				break
			}
		}
	}
}

func (m *monitor) try(name string) {
	if s, err := signal.Parse(name); err == nil {
		m.tried.Add(s.Definition().Condition)
	}
}

// once holds a line against the one before: the same reason is not repeated.
func (m *monitor) once(d *agent.Decision) {
	kind, text := string(d.Decision), d.Threshold+" "+d.Held+" "+d.Why
	switch d.Decision {
	case agent.Waits:
		kind += " " + reasonIn(d.Why)
		text = d.Threshold
	case agent.Failed:
		if m.failed = d.Time; len(d.Failed) > 0 {
			return
		}
		text = d.Threshold
	}
	if m.lines[kind] == text {
		m.fault("told twice: %s %s", d.Decision, d.Why)
	}
	m.lines[kind] = text
}

// reasonIn is the reason of a sentence, without its figures.
func reasonIn(why string) string {
	_, rest, _ := strings.Cut(why, ": ")
	reason, _, _ := strings.Cut(rest, ", available")
	return reason
}

// Looked implements agent.Reporter.
func (m *monitor) Looked(o *agent.Outcome, _ *eviction.Policy) {
	n := m.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := o.Evicted; e != nil {
		m.try(e.Cause)
		m.owners[e.Pod.Owner]++
	}
	if len(o.Failed) > 0 && o.Verdict.Target != nil {
		m.tried.Add(o.Verdict.Target.Signal.Definition().Condition)
	}
	now := time.Now()
	for i := range hard {
		s, since := hard[i].Signal, &m.since[hard[i].Signal]
		if m.tried.Has(s.Definition().Condition) && !since.IsZero() {
			m.delays = append(m.delays, delay{now.Sub(*since), s, m.sequence})
			*since = time.Time{}
		}
		switch {
		case !m.obliges(&hard[i], o):
			*since = time.Time{}
		case since.IsZero():
			*since = now
		case now.Sub(*since) > longest:
			m.fault("%s is met for %s, and nothing was tried: stands by %q, held %q, failed %v, ranking %d", &hard[i], now.Sub(*since), o.StoodBy, o.Held.By, o.Failed, len(o.Ranking))
			*since = now
		}
	}
	m.tried = 0
	m.explained(o)
	if o.Snapshot.Kind == signal.Regular && o.Verdict.Reason == eviction.NothingMet {
		clear(m.lines) // from here on reasons are told anew
	}
}

// obliges reports whether a hard threshold is met and a pod that may be evicted for it
// holds what is missing.
func (m *monitor) obliges(t *eviction.Threshold, o *agent.Outcome) bool {
	available := m.node.available(t.Signal)
	missing := t.Value.Quantity.Value - available
	if missing <= 0 {
		return false
	}
	urgent := 2*available < t.Value.Quantity.Value
	for _, p := range m.node.pods {
		if p.Protection != signal.Unprotected || p.uses[t.Signal] < missing || !m.hasShare(p, urgent) {
			continue
		}
		request := map[signal.Signal]signal.Amount{signal.MemoryAvailable: p.MemoryRequest.Value, signal.NodefsAvailable: p.StorageRequest.Value}[t.Signal]
		if m.limited() && p.uses[t.Signal] <= request {
			continue // behind one that is spared it is a bystander
		}
		if !urgent && (o.Held.By == restraint.Futile || m.owners[p.Owner] >= 3) {
			continue
		}
		return true
	}
	return false
}

func (m *monitor) limited() bool { return m.limits != restraint.Policy{} }

// hasShare reports whether a pod's namespace has not had its share of an hour.
func (m *monitor) hasShare(p *pod, urgent bool) bool {
	if m.limits.PerHour == 0 {
		return true
	}
	bound, own, namespaces := m.limits.PerHour, 0, map[string]bool{p.Namespace: true}
	if urgent {
		bound *= restraint.UrgentBounds
	}
	for _, e := range m.spent {
		if namespaces[e.namespace] = true; e.namespace == p.Namespace {
			own++
		}
	}
	return own < max(1, bound/len(namespaces))
}

// explained holds a look that did nothing against the log.
func (m *monitor) explained(o *agent.Outcome) {
	t := o.Verdict.Target
	switch {
	case t == nil || !t.Hard() || o.Acted() || o.Recovered || o.Reclaiming:
	case o.StoodBy != "" && strings.Contains(m.lines["stand-by"], o.StoodBy):
	case o.StoodBy == "no pod could be evicted a moment ago":
	case o.StoodBy != "" && strings.Contains(o.StoodBy, "is on its way") && len(m.pending) > 0:
	case o.StoodBy == "" && o.Held.By != restraint.None && (o.Begun || strings.Contains(m.lines["held"], " "+o.Held.By.String()+" ") || m.counts["futile"] > 0):
	case o.StoodBy == "" && o.Held.By == restraint.None && strings.Contains(m.lines["failed"], t.String()):
	default:
		m.fault("nothing was done for %s, and the log does not say why: stands by %q, held %q; told %q, under way %v", t, o.StoodBy, o.Held.By, m.lines, m.pending)
	}
}
