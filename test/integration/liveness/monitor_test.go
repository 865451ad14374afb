package liveness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// maxDelay is the maximum time for which a hard threshold may be met before an eviction is tried.
// For the next eviction it counts from the time at which the previous one has freed its
// resources, which may take 30 s. A cycle with an eviction for another condition does not count: there is
// one eviction in each.
const (
	maxDelay = 40 * time.Second
	cycle    = 10 * time.Second
)

// delay is the time for which a threshold was met, with an evictable pod, before an eviction
// was tried.
type delay struct {
	took     time.Duration
	signal   signals.Signal
	sequence uint64
}

// monitor compares the agent's actions with the state of the node. It is called on the agent's
// goroutine.
type monitor struct {
	t              *testing.T
	seed, sequence uint64
	node           *node
	limits         limiter.Policy
	begun          time.Time
	verbose        bool // for one sequence alone

	since       [signals.Count]time.Time // of an obligation
	hog         [signals.Count]string    // the pod that causes it
	others      [signals.Count]cycles    // with evictions for other conditions, since the obligation
	tried       signals.ConditionSet     // since the previous check
	delays      []delay
	counts      map[string]int
	spent       []spent
	owners      map[string]int
	pending     map[string]int // evictions without a reported end
	lines       map[string]string
	named       map[string]time.Time // last line with consumers, by signal
	requested   *agent.Decision      // the soft eviction in progress
	givenUp     map[string]time.Time // pods with an abandoned soft eviction, by UID
	ineffective signals.ConditionSet // conditions with ineffective evictions
}

// cycles are cycles of checks in which something was tried.
type cycles struct {
	n    int
	last time.Time
}

// note counts a try, at most one in a cycle.
func (c *cycles) note(now time.Time) {
	if now.Sub(c.last) >= cycle {
		c.n, c.last = c.n+1, now
	}
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
		m.t.Logf("%s %s %s %s: %s %v", time.Since(m.begun), d.Decision, d.Check, d.Pod, d.Reason, d.Failed)
	}
	if s, err := signals.Parse(d.Signal); err == nil && d.LimitedBy == "ineffective" {
		m.ineffective.Add(s.Definition().Condition)
	}
	m.soft(d)
	switch d.Decision {
	case agent.Evicted, agent.SoftEvicting:
		m.pending[d.UID]++
		m.spent = append(m.spent, spent{d.Time, strings.Split(d.Pod, "/")[0], d.UID})
		maps.DeleteFunc(m.lines, func(kind, _ string) bool {
			verb, _, _ := strings.Cut(kind, " ")
			return slices.Contains([]agent.Verb{agent.Blocked, agent.Failed, agent.NoneHelps}, agent.Verb(verb))
		})
	case agent.Escalated:
		m.try(d.Signal)
	case agent.ReclaimDone, agent.Withdrawn:
		m.settle(d.Signal)
		if d.Decision == agent.Withdrawn && m.pending[d.UID] > 1 {
			break // killed for another reason: both are waited for
		}
		if m.pending[d.UID]--; m.pending[d.UID] <= 0 {
			delete(m.pending, d.UID)
		}
	case agent.Blocked, agent.Limited, agent.Ineffective, agent.Failed, agent.NoneHelps, agent.Pending:
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

// soft checks the duration of soft evictions. A pod has its grace period, five minutes for a
// budget or a controller, and its grace period once more if it is deleted by then. Then other
// pods are considered.
func (m *monitor) soft(d *agent.Decision) {
	switch d.Decision {
	case agent.SoftEvicting:
		if at, given := m.givenUp[d.UID]; given && d.Time.Sub(at) < 50*time.Minute {
			m.fault("%s was requested again %s after its withdrawal", d.Pod, d.Time.Sub(at))
		}
		m.requested = d
	case agent.Withdrawn, agent.SoftEnded:
		if m.requested != nil && m.requested.UID == d.UID {
			m.requested = nil
		}
		if d.Decision == agent.Withdrawn && len(d.Failed) > 0 {
			m.givenUp[d.UID] = d.Time
			m.counts["given up"]++
		}
	}
}

// settle restarts obligations: until now, an eviction for them was in progress.
func (m *monitor) settle(name string) {
	s, err := signals.Parse(name)
	for i := range m.since {
		if err == nil && !m.since[i].IsZero() && signals.Signal(i).Definition().Condition == s.Definition().Condition {
			m.since[i], m.others[i] = time.Now(), cycles{}
		}
	}
}

func (m *monitor) try(name string) {
	if s, err := signals.Parse(name); err == nil {
		m.tried.Add(s.Definition().Condition)
	}
}

// Checked implements agent.Reporter.
func (m *monitor) Checked(o *agent.Outcome, _ *eviction.Policy) {
	n := m.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := o.Evicted; e != nil {
		m.try(e.Cause)
		m.owners[e.Pod.Owner]++
	}
	m.failures(o)
	for i := range o.Passed {
		m.failures(&o.Passed[i])
	}
	now := time.Now()
	for i := range hard {
		s, since := hard[i].Signal, &m.since[hard[i].Signal]
		if m.tried.Has(s.Definition().Condition) && !since.IsZero() {
			m.delays = append(m.delays, delay{now.Sub(*since), s, m.sequence})
			*since = time.Time{}
		}
		if m.tried != 0 {
			m.others[s].note(now)
		}
		switch {
		case !m.obliges(&hard[i]):
			*since = time.Time{}
		case since.IsZero():
			*since, m.others[s] = now, cycles{}
		case m.ineffective.Has(s.Definition().Condition) && n.grew.After(*since):
			*since = n.grew // evictions pause for usage outside of pods
		case now.Sub(*since) > maxDelay+time.Duration(m.others[s].n)*cycle:
			m.fault("%s has been met for %s without an attempt, although %s: blocked %q, limited by %q, failed %v, passed %v", &hard[i], now.Sub(*since), m.hog[s], o.Blocked, o.Limit.By, o.Failed, blocks(o))
			*since = now
		}
	}
	m.tried = 0
	if d := m.requested; d != nil && now.Sub(d.Time) > 2*time.Duration(*d.Grace)*time.Second+6*time.Minute {
		m.fault("%s has been requested for %s and blocks all other pods", d.Pod, now.Sub(d.Time))
		m.requested = nil
	}
	m.explained(o)
	for i := range o.Passed {
		m.explained(&o.Passed[i])
	}
	if o.Snapshot.Kind == signals.Periodic && o.Verdict.Reason == eviction.NothingMet {
		clear(m.lines) // from here on reasons are logged again
	}
}

// failures counts unsuccessful evictions. The agent waits for those that the API server has recorded.
func (m *monitor) failures(o *agent.Outcome) {
	if o.Evicted == nil && o.Inflight != nil {
		m.pending[o.Inflight.Decided.Pod.UID]++
		m.counts["left to the kubelet"]++
	}
	if len(o.Failed) > 0 && o.Verdict.Target != nil {
		m.tried.Add(o.Verdict.Target.Signal.Definition().Condition)
	}
}

// obliges reports whether a hard threshold is met and an evictable pod uses the missing
// amount.
func (m *monitor) obliges(t *eviction.Threshold) bool {
	available := m.node.available(t.Signal)
	missing := t.Value.Quantity.Value - available
	if missing <= 0 {
		return false
	}
	urgent := 2*available < t.Value.Quantity.Value
	for _, p := range m.node.pods {
		if p.Protection != signals.Unprotected || p.uses[t.Signal] < missing || !m.hasShare(p, urgent) {
			continue
		}
		request := map[signals.Signal]signals.Amount{signals.MemoryAvailable: p.MemoryRequest.Value, signals.NodefsAvailable: p.StorageRequest.Value}[t.Signal]
		if m.limited() && p.uses[t.Signal] <= request {
			continue // behind a pod exempt from eviction it is a bystander
		}
		if !urgent && (m.ineffective.Has(t.Signal.Definition().Condition) || m.owners[p.Owner] >= 3) {
			continue
		}
		m.hog[t.Signal] = fmt.Sprintf("%s uses %d of %d missing, urgent %v", p.Key(), p.uses[t.Signal], missing, urgent)
		return true
	}
	return false
}

func (m *monitor) limited() bool { return m.limits != limiter.Policy{} }

// hasShare reports whether a pod's namespace is below its limit of evictions per hour.
func (m *monitor) hasShare(p *pod, urgent bool) bool {
	if m.limits.PerHour == 0 {
		return true
	}
	bound, own, namespaces := m.limits.PerHour, 0, map[string]bool{p.Namespace: true}
	if urgent {
		bound *= limiter.UrgentBounds
	}
	for _, e := range m.spent {
		if namespaces[e.namespace] = true; e.namespace == p.Namespace {
			own++
		}
	}
	return own < max(1, bound/len(namespaces))
}

// explained checks that the log explains a check without action.
func (m *monitor) explained(o *agent.Outcome) {
	t := o.Verdict.Target
	if t == nil || !t.Hard() || o.Acted() || o.Recovered || o.Collecting {
		return
	}
	logged := func(verb agent.Verb) string { return m.lines[string(verb)+" "+t.String()] }
	switch {
	case o.Blocked == "no pod could be evicted a moment ago":
	case o.Blocked != "" && strings.Contains(o.Blocked, "is still being freed") && len(m.pending) > 0:
	case o.Blocked != "" && strings.Contains(logged(agent.Blocked), o.Blocked):
	case o.Blocked == "" && o.Limit.By != limiter.None && (o.LimitBegun || strings.Contains(logged(agent.Limited), " "+o.Limit.By.String()+" ")):
	case o.NoneHelps() && m.lines[noneHelps(t.String(), cause(o.SpareReason()))] != "":
		m.explainedUsedUp(o)
	case o.Blocked == "" && !o.NoneHelps() && o.Limit.By == limiter.None && logged(agent.Failed) == t.String():
	default:
		m.fault("no action for %s and no reason in the log: blocked %q, limited by %q; logged %q, pending %v", t, o.Blocked, o.Limit.By, m.lines, m.pending)
	}
}

// explainedUsedUp checks that the log has that nothing of a resource is available.
func (m *monitor) explainedUsedUp(o *agent.Outcome) {
	t := o.Verdict.Target
	if seen := &o.Snapshot.Node[t.Signal]; seen.Known && seen.Available <= 0 && m.lines[noneHelps(t.String(), string(agent.RepeatUsedUp))] == "" {
		m.fault("no pod helps for %s, nothing is available, and the log does not have it", t)
	}
}
