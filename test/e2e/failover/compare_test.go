package failover

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

const (
	// soon is the maximum time from a cause to its request on an idle machine, on the same clock.
	soon = 50 * time.Millisecond
	// requestsEach is the number of sequential requests of an action.
	requestsEach = 5
)

// check compares the observations with the expectations.
func (t *failoverRun) check() {
	t.led = t.renewals()
	slices.SortFunc(t.led, func(a, b renewal) int { return a.at.Compare(b.at) })
	t.slow = t.spans()
	late := map[string]time.Duration{}
	evictions := 0
	for _, d := range t.deaths {
		evictions += t.compare(d, late)
	}
	t.noOtherNode()
	for _, k := range t.kills {
		t.Logf("killed %s at %s, followed after %v", k.env, k.at.Format("15:04:05.000"), k.succeeded.Sub(k.at).Round(time.Millisecond))
	}
	t.Logf("%d deaths of %d nodes, %d evictions, %d leaders killed; at most too late: %v", len(t.deaths), len(t.nodes), evictions, len(t.kills), late)
	if evictions == 0 {
		t.Error("no pod was evicted")
	}
}

// due returns the latest time for an action due at a moment. A leader that was killed shortly
// before may not have acted. Its successor acts at once, or a while later if it must observe
// the cause first.
func (t *failoverRun) due(at time.Time, while time.Duration) time.Time {
	for _, k := range t.kills {
		begun := t.limit(at, k.at) // until then the action may be incomplete
		if next := k.succeeded.Add(while); at.After(k.at.Add(-begun)) && at.Before(next) {
			at = next
		}
	}
	return at
}

// limit returns the maximum delay of an action between two moments. A restarted timer is later by a second or more.
func (t *failoverRun) limit(from, to time.Time) time.Duration {
	return slack + requestsEach*t.slowness(from, to)
}

// silentFrom returns the time from which a node counts as silent, if it became Unknown at a moment: a grace period after its
// last heartbeat, or --outage-grace after the end of an outage. A request that takes about requestTimeout may be one.
func (t *failoverRun) silentFrom(d *death, unknown time.Time) time.Time {
	from := d.last.Done.Add(grace)
	for _, s := range t.slow {
		if s.took() >= requestTimeout*3/4 && s.begin.Before(from.Add(slack)) && s.end.Before(unknown) {
			from = later(from, s.end.Add(outageGrace))
		}
	}
	return from
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// span is the time of a request, or between two renewals of the leader's lease less their interval.
type span struct{ begin, end time.Time }

func (s span) took() time.Duration { return s.end.Sub(s.begin) }

// spans returns the times of requests, by their begin.
func (t *failoverRun) spans() (all []span) {
	for _, p := range t.pulses {
		all = append(all, span{p.Sent, p.Done})
	}
	for i := range len(t.led) - 1 {
		if last, next := t.led[i].at.Add(leaseRetry), t.led[i+1].at; next.After(last) && !t.takenOver(next) {
			all = append(all, span{last, next})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.begin.Compare(b.begin) })
	return all
}

// slowness returns the maximum delay of a request between two moments: the response time of the API server, or how late
// the leader renewed its lease. On a machine busy with other work, everything takes longer.
func (t *failoverRun) slowness(from, to time.Time) (maximum time.Duration) {
	for _, s := range t.slow {
		if s.end.After(from) && s.begin.Before(to) {
			maximum = max(maximum, s.took())
		}
	}
	return maximum
}

// takenOver reports whether a renewal at a moment follows the kill of a leader, which due considers.
func (t *failoverRun) takenOver(at time.Time) bool {
	return slices.ContainsFunc(t.kills, func(k *kill) bool { return at.After(k.at) && !at.After(k.succeeded) })
}

// compare checks one death and counts the evictions.
func (t *failoverRun) compare(d *death, late map[string]time.Duration) (evictions int) {
	name := d.node.Name
	notLater := func(what string, at, due time.Time) {
		t.Helper()
		late[what] = max(late[what], at.Sub(due).Round(time.Millisecond))
		if limit := t.limit(due, at); at.After(due.Add(limit)) {
			t.Errorf("%s of %s: %s at %s, %v after it was due, at most %v", name, clock(d.last.Sent), what, clock(at), at.Sub(due), limit)
		}
	}
	unknown, ok := t.became(d, "Unknown", "nodes/status", func(n *recorder.Node) bool { return n.Is(corev1.NodeReady) == corev1.ConditionUnknown })
	tainted, ok2 := t.became(d, "tainted", "nodes", unreachable)
	if !ok || !ok2 {
		return 0
	}
	notLater("Unknown", unknown, t.due(t.silentFrom(d, unknown), renew))
	notLater("tainted", tainted, t.due(unknown, 0))
	added := t.added(d)
	for _, pod := range d.pods {
		seconds := time.Duration(*pod.Spec.Tolerations[0].TolerationSeconds) * time.Second
		latest := t.due(tainted.Add(seconds), 0)
		at, gone := t.left(pod, d)
		switch {
		case gone:
			evictions++
			notLater("evicted", at, latest)
			if at.Before(added.Add(seconds)) {
				t.Errorf("pod %s was deleted %v too early", pod.Name, added.Add(seconds).Sub(at))
			}
		case d.back.Sent.After(latest.Add(t.limit(latest, d.back.Sent))):
			t.Errorf("pod %s was due at %s and never deleted", pod.Name, clock(latest))
		}
	}
	t.freed(d, notLater)
	return evictions
}

func clock(at time.Time) string { return at.Format("15:04:05.000") }

func unreachable(n *recorder.Node) bool {
	return n.Taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) != nil
}

// became returns the time at which a node reached a state in a death, at most once. It is the
// time of the request for it. If the requester was killed before the server answered, it is the
// time of the observed state.
func (t *failoverRun) became(d *death, what, resource string, is func(*recorder.Node) bool) (at time.Time, ok bool) {
	requests := t.writes(func(w *recorder.Write) bool {
		return w.Done() && w.Changes() && w.Resource == resource && w.Name == d.node.Name && t.covers(d, w.At) && is(stateOf(w))
	})
	if len(requests) > 1 && what == "Unknown" {
		t.Errorf("%s of %s became %s %d times", d.node.Name, clock(d.last.Sent), what, len(requests))
	}
	if len(requests) > 0 {
		return requests[0].At, true
	}
	for _, n := range t.rec.NodeStates(d.node.Name) {
		if t.covers(d, n.At) && is(n) {
			return n.At, true
		}
	}
	t.Errorf("%s of %s never became %s", d.node.Name, clock(d.last.Sent), what)
	return at, false
}

// covers reports whether a moment is within a death or right after it.
func (t *failoverRun) covers(d *death, at time.Time) bool {
	return at.After(d.from) && at.Before(t.after(d.back.Done))
}

// after returns the end of the time in which a request decided before a moment can arrive.
func (t *failoverRun) after(at time.Time) time.Time {
	return at.Add(soon + t.slowness(at, at.Add(slack)))
}

// stateOf returns the node in the answer to a request.
func stateOf(w *recorder.Write) *recorder.Node {
	n := &corev1.Node{}
	if json.Unmarshal(w.Answer, n) != nil {
		return nil
	}
	return &recorder.Node{Node: n}
}

// added returns the time of the taint by its own field, which is the same under every leader.
func (t *failoverRun) added(d *death) (added time.Time) {
	for _, n := range t.rec.NodeStates(d.node.Name) {
		if !unreachable(n) || !n.At.After(d.from) || !n.At.Before(d.back.Sent) {
			continue
		}
		at := n.Taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute).TimeAdded.Time
		if !added.IsZero() && !at.Equal(added) {
			t.Errorf("%s: its taint was added at %s, and then at %s", d.node.Name, clock(added), clock(at))
		}
		added = at
	}
	return added
}

// left returns the time of a pod's deletion in a death, if any: at most one.
func (t *failoverRun) left(pod *corev1.Pod, d *death) (at time.Time, gone bool) {
	deletes := t.deleted(pod)
	if len(deletes) > 1 {
		t.Errorf("pod %s was deleted %d times", pod.Name, len(deletes))
	}
	if len(deletes) > 0 {
		return deletes[0].At, true
	}
	for _, p := range t.rec.PodStates(pod.UID) {
		if p.Leaving() && p.At.Before(d.back.Sent) {
			return p.At, true
		}
	}
	return at, false
}

// freed checks that a node loses its taints after its return.
func (t *failoverRun) freed(d *death, notLater func(what string, at, due time.Time)) {
	for _, n := range t.rec.NodeStates(d.node.Name) {
		if n.At.After(d.back.Sent) && n.Tainted(corev1.TaintEffectNoExecute)+n.Tainted(corev1.TaintEffectNoSchedule) == "" {
			notLater("freed", n.At, t.due(d.back.Done, renew))
			return
		}
	}
	t.Errorf("%s returned at %s and is still tainted", d.node.Name, clock(d.back.Done))
}

// ours returns the controllers' taints in the answer to a request.
func ours(w *recorder.Write) string {
	n := stateOf(w)
	return strings.Trim(n.Tainted(corev1.TaintEffectNoExecute)+","+n.Tainted(corev1.TaintEffectNoSchedule), ",")
}

// noOtherNode checks that no node was declared lost without a grace period of silence.
func (t *failoverRun) noOtherNode() {
	for _, w := range t.writes(func(w *recorder.Write) bool {
		return w.Done() && w.Changes() && (w.Resource == "nodes/status" || w.Resource == "nodes" && ours(w) != "")
	}) {
		died := slices.ContainsFunc(t.deaths, func(d *death) bool {
			return d.node.Name == w.Name && !w.At.Before(d.last.Sent.Add(grace)) && t.covers(d, w.At)
		})
		if !died && !t.silent(w.Name, w.At) {
			t.Errorf("write about a live node: %s", w)
		}
	}
	t.untouched(t.stable)
}

// silent reports whether a node sent no heartbeat for a grace period before a moment, with or without a death.
func (t *failoverRun) silent(name string, at time.Time) bool {
	return slices.ContainsFunc(append(t.nodes[:len(t.nodes):len(t.nodes)], t.stable), func(n *hollow.Node) bool {
		return n.Name == name && slices.ContainsFunc(silences(n.Beats(), grace, time.Time{}), func(q silence) bool {
			return !at.Before(q.due) && at.Before(t.after(q.back))
		})
	})
}
