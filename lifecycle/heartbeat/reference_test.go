package heartbeat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// reference is a model of Watch that stores whole objects and checks all nodes each time.
type reference struct {
	nodes     map[string]*referenceNode
	leases    map[string]time.Time
	notBefore time.Time
}

type referenceNode struct {
	model.Node
	last, first      time.Time
	silent, reported bool
}

func (v *reference) see(n *model.Node, now time.Time) {
	was := v.nodes[n.Name]
	ready := n.Conditions[model.Ready]
	if was == nil || was.UID != n.UID {
		is := &referenceNode{Node: *n, first: now, silent: ready.Status == model.Unknown}
		is.last = earlier(now, later(n.Created, later(ready.Heartbeat, v.leases[n.Name])))
		v.nodes[n.Name] = is
		return
	}
	before := was.Conditions[model.Ready]
	was.Node = *n
	switch ready.Status {
	case model.True, model.False:
		if ready != before {
			v.recordSign(was, now)
		}
	case model.Unknown:
		if before.Status != model.Absent && !ready.Heartbeat.Equal(before.Heartbeat) {
			v.recordSign(was, now)
		}
	}
}

func (v *reference) renewed(name string, renewTime, seen time.Time) {
	saved, known := v.leases[name]
	v.leases[name] = renewTime
	n := v.nodes[name]
	switch {
	case n == nil || known && renewTime.Equal(saved):
	case known:
		v.recordSign(n, seen)
	default:
		n.last = later(n.last, earlier(seen, renewTime))
		if n.silent && n.Conditions[model.Ready].Status != model.Unknown && v.due(n).After(seen) {
			n.silent, n.reported = false, false
		}
	}
}

func (v *reference) recordSign(n *referenceNode, at time.Time) {
	n.last, n.silent, n.reported = later(n.last, at), false, false
}

func (v *reference) due(n *referenceNode) time.Time {
	grace := policy.Grace
	if n.Conditions[model.Ready].Status == model.Absent {
		grace = policy.StartupGrace
	}
	return later(v.notBefore, later(n.first.Add(policy.Renewal), n.last.Add(grace)))
}

func (v *reference) silent(now time.Time) (names []string) {
	for name, n := range v.nodes {
		n.silent = n.silent || !v.due(n).After(now)
		if n.silent && !n.reported {
			n.reported = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// next returns the exact time of the next missed heartbeat without further events.
func (v *reference) next(now time.Time) (at time.Time, ok bool) {
	for _, n := range v.nodes {
		due := v.due(n)
		if n.silent {
			due = now
		}
		if !n.reported && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// env generates events for a few names, so that every sequence occurs for each of them.
type env struct {
	*rand.Rand
	now   time.Time
	uid   int
	nodes map[string]model.Node
}

// nearNow returns a time close to now by the node's clock, which may be wrong.
func (r *env) nearNow() time.Time {
	return r.now.Add(time.Duration(r.IntN(40)-35) * time.Second)
}

// changedNode returns a random change of the node's object.
func (r *env) changedNode(name string) *model.Node {
	n, there := r.nodes[name]
	if !there || r.IntN(20) == 0 {
		r.uid++
		n = model.Node{Name: name, UID: fmt.Sprint(r.uid), Created: r.now.Add(-time.Duration(r.IntN(100)) * time.Second)}
	}
	ready := &n.Conditions[model.Ready]
	switch r.IntN(6) {
	case 0: // for example labels
	case 1, 2: // the node reports
		*ready = model.Condition{Status: model.Status(r.IntN(2)) + model.True, Heartbeat: r.nearNow(), Transition: r.nearNow()}
	case 3: // the report is removed
		*ready = model.Condition{}
	default: // the controller writes Unknown
		if ready.Status == model.Absent {
			ready.Heartbeat = n.Created
		}
		ready.Status, ready.Transition, ready.Reason = model.Unknown, r.now, model.ReasonStatusUnknown
	}
	r.nodes[name] = n
	return &n
}

func TestWatch_MatchesReference(t *testing.T) {
	const timelines, steps = 1500, 150
	reported := 0
	for seed := range uint64(timelines) {
		r := &env{rand.New(rand.NewPCG(seed, 1)), start, 0, map[string]model.Node{}}
		w, ref := New(policy), &reference{map[string]*referenceNode{}, map[string]time.Time{}, start}
		for step := range steps {
			r.now = r.now.Add(time.Duration(r.IntN(8)) * time.Second)
			r.randomEvent(w, ref)
			if diff := compare(w, ref, r.now, &reported); diff != "" {
				t.Fatalf("timeline %d, step %d, at %v: %s", seed, step, r.now.Sub(start), diff)
			}
		}
	}
	if reported < timelines {
		t.Errorf("only %d nodes became silent in %d timelines", reported, timelines)
	}
}

func (r *env) randomEvent(w *Watch, ref *reference) {
	name := string(rune('a' + r.IntN(5)))
	switch r.IntN(12) {
	case 0, 1, 2:
		n := r.changedNode(name)
		w.Node(n, r.now)
		ref.see(n, r.now)
	case 3, 4, 5, 6:
		renewTime, seen := r.nearNow(), r.now.Add(-time.Duration(r.IntN(3))*time.Second)
		w.Renewed(name, renewTime, seen)
		ref.renewed(name, renewTime, seen)
	case 7:
		w.Unleased(name, r.now)
		delete(ref.leases, name)
	case 8:
		w.Forget(name)
		delete(ref.nodes, name)
		delete(ref.leases, name)
		delete(r.nodes, name)
	case 9:
		if r.IntN(4) == 0 {
			notBefore := r.now.Add(time.Duration(r.IntN(60)) * time.Second)
			w.NotBefore(notBefore)
			ref.notBefore = later(ref.notBefore, notBefore)
		}
	}
}

func compare(w *Watch, ref *reference, now time.Time, reported *int) string {
	next, ok := w.Next()
	if want, some := ref.next(now); some != ok || ok && next.After(want) {
		return fmt.Sprintf("next: got %v, %v, later than %v, %v", next.Sub(start), ok, want.Sub(start), some)
	}
	// A caller that sleeps until Next must get every result.
	var got []string
	if ok && !next.After(now) {
		got = w.Expired(now)
	}
	want := ref.silent(now)
	if *reported += len(got); !slices.Equal(got, want) {
		return fmt.Sprintf("silent: got %v, want %v", got, want)
	}
	for name := range "abcde" {
		name := string(rune('a' + name))
		n := ref.nodes[name]
		if last, seen := w.Last(name); seen != (n != nil) || seen && !last.Equal(n.last) {
			return fmt.Sprintf("%s: last sign of life %v, %v", name, last.Sub(start), seen)
		}
		if w.IsExpired(name) != (n != nil && n.silent) {
			return fmt.Sprintf("%s: IsExpired returned %v", name, w.IsExpired(name))
		}
	}
	return ""
}

// newWatch returns a watch with so many nodes, and their names.
func newWatch(nodes int) (*Watch, []string) {
	w, names := New(policy), make([]string, nodes)
	for i := range nodes {
		n := node(model.True, at(0), at(0))
		n.Name = fmt.Sprintf("node-%06d.region.example", i)
		names[i] = n.Name
		w.Node(n, start)
		w.Renewed(n.Name, start, start)
	}
	return w, names
}

// BenchmarkRenewed measures the leases of 150 000 nodes in the order of their arrival, each
// once per interval.
func BenchmarkRenewed(b *testing.B) {
	const nodes = 150_000
	w, names := newWatch(nodes)
	b.ReportAllocs()
	now, i := start, 0
	for b.Loop() {
		now = now.Add(policy.Renewal / nodes)
		w.Renewed(names[i%nodes], now, now)
		i += 7919
	}
}

// BenchmarkHeartbeat is BenchmarkRenewed with the consequences: deadlines that are reached and
// updated, and the calls of Next.
func BenchmarkHeartbeat(b *testing.B) {
	const nodes = 150_000
	w, names := newWatch(nodes)
	b.ReportAllocs()
	now, i := start, 0
	for b.Loop() {
		now = now.Add(policy.Renewal / nodes)
		w.Renewed(names[i%nodes], now, now)
		i += 7919
		if next, _ := w.Next(); !next.After(now) {
			if silent := w.Expired(now); len(silent) > 0 {
				b.Fatalf("%d nodes became silent", len(silent))
			}
		}
	}
}
