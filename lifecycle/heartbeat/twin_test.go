package heartbeat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// naive is the reference model: it stores whole objects, walks over all nodes, and is evidently
// correct.
type naive struct {
	nodes  map[string]*naiveNode
	leases map[string]time.Time
	floor  time.Time
}

type naiveNode struct {
	model.Node
	last, first  time.Time
	silent, told bool
}

func (v *naive) see(n *model.Node, now time.Time) {
	was := v.nodes[n.Name]
	ready := n.Conditions[model.Ready]
	if was == nil || was.UID != n.UID {
		is := &naiveNode{Node: *n, first: now, silent: ready.Status == model.Unknown}
		is.last = earlier(now, later(n.Created, later(ready.Heartbeat, v.leases[n.Name])))
		v.nodes[n.Name] = is
		return
	}
	before := was.Conditions[model.Ready]
	was.Node = *n
	switch ready.Status {
	case model.True, model.False:
		if ready != before {
			v.heard(was, now)
		}
	case model.Unknown:
		if before.Status != model.Absent && !ready.Heartbeat.Equal(before.Heartbeat) {
			v.heard(was, now)
		}
	}
}

func (v *naive) renewed(name string, renewTime, seen time.Time) {
	saved, known := v.leases[name]
	v.leases[name] = renewTime
	n := v.nodes[name]
	switch {
	case n == nil || known && renewTime.Equal(saved):
	case known:
		v.heard(n, seen)
	default:
		n.last = later(n.last, earlier(seen, renewTime))
		if n.silent && n.Conditions[model.Ready].Status != model.Unknown && v.due(n).After(seen) {
			n.silent, n.told = false, false
		}
	}
}

func (v *naive) heard(n *naiveNode, at time.Time) {
	n.last, n.silent, n.told = later(n.last, at), false, false
}

func (v *naive) due(n *naiveNode) time.Time {
	grace := policy.Grace
	if n.Conditions[model.Ready].Status == model.Absent {
		grace = policy.StartupGrace
	}
	return later(v.floor, later(n.first.Add(policy.Renewal), n.last.Add(grace)))
}

func (v *naive) silent(now time.Time) (names []string) {
	for name, n := range v.nodes {
		n.silent = n.silent || !v.due(n).After(now)
		if n.silent && !n.told {
			n.told = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// next returns the exact time of the next missed heartbeat without further events.
func (v *naive) next(now time.Time) (at time.Time, ok bool) {
	for _, n := range v.nodes {
		due := v.due(n)
		if n.silent {
			due = now
		}
		if !n.told && (!ok || due.Before(at)) {
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

// world has few names, so that everything happens to each of them.
type world struct {
	*rand.Rand
	now   time.Time
	uid   int
	nodes map[string]model.Node
}

// moment returns a time close to now by the node's clock, which may be wrong.
func (r *world) moment() time.Time {
	return r.now.Add(time.Duration(r.IntN(40)-35) * time.Second)
}

// change returns a random change of the node's object.
func (r *world) change(name string) *model.Node {
	n, there := r.nodes[name]
	if !there || r.IntN(20) == 0 {
		r.uid++
		n = model.Node{Name: name, UID: fmt.Sprint(r.uid), Created: r.now.Add(-time.Duration(r.IntN(100)) * time.Second)}
	}
	ready := &n.Conditions[model.Ready]
	switch r.IntN(6) {
	case 0: // for example labels
	case 1, 2: // the node reports
		*ready = model.Condition{Status: model.Status(r.IntN(2)) + model.True, Heartbeat: r.moment(), Transition: r.moment()}
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

func TestWatchIsItsNaiveTwin(t *testing.T) {
	const timelines, steps = 1500, 150
	told := 0
	for seed := range uint64(timelines) {
		r := &world{rand.New(rand.NewPCG(seed, 1)), start, 0, map[string]model.Node{}}
		w, twin := New(policy), &naive{map[string]*naiveNode{}, map[string]time.Time{}, start}
		for step := range steps {
			r.now = r.now.Add(time.Duration(r.IntN(8)) * time.Second)
			r.happens(w, twin)
			if fault := compare(w, twin, r.now, &told); fault != "" {
				t.Fatalf("timeline %d, step %d, at %v: %s", seed, step, r.now.Sub(start), fault)
			}
		}
	}
	if told < timelines {
		t.Errorf("only %d silences in %d timelines: they show nothing", told, timelines)
	}
}

func (r *world) happens(w *Watch, twin *naive) {
	name := string(rune('a' + r.IntN(5)))
	switch r.IntN(12) {
	case 0, 1, 2:
		n := r.change(name)
		w.See(n, r.now)
		twin.see(n, r.now)
	case 3, 4, 5, 6:
		renewTime, seen := r.moment(), r.now.Add(-time.Duration(r.IntN(3))*time.Second)
		w.Renewed(name, renewTime, seen)
		twin.renewed(name, renewTime, seen)
	case 7:
		w.Unleased(name, r.now)
		delete(twin.leases, name)
	case 8:
		w.Forget(name)
		delete(twin.nodes, name)
		delete(twin.leases, name)
		delete(r.nodes, name)
	case 9:
		if r.IntN(4) == 0 {
			floor := r.now.Add(time.Duration(r.IntN(60)) * time.Second)
			w.NotBefore(floor)
			twin.floor = later(twin.floor, floor)
		}
	}
}

func compare(w *Watch, twin *naive, now time.Time, told *int) string {
	next, ok := w.Next()
	if want, some := twin.next(now); some != ok || ok && next.After(want) {
		return fmt.Sprintf("waits until %v, %v, too late for %v, %v", next.Sub(start), ok, want.Sub(start), some)
	}
	// A caller that waits for Next misses nothing: it calls only then.
	var got []string
	if ok && !next.After(now) {
		got = w.Silent(now)
	}
	want := twin.silent(now)
	if *told += len(got); !slices.Equal(got, want) {
		return fmt.Sprintf("%v fell silent instead of %v", got, want)
	}
	for name := range "abcde" {
		name := string(rune('a' + name))
		n := twin.nodes[name]
		if last, seen := w.Last(name); seen != (n != nil) || seen && !last.Equal(n.last) {
			return fmt.Sprintf("%s was heard at %v, %v", name, last.Sub(start), seen)
		}
		if w.IsSilent(name) != (n != nil && n.silent) {
			return fmt.Sprintf("%s is silent: %v", name, w.IsSilent(name))
		}
	}
	return ""
}

// crowd returns a watch with so many nodes, and their names.
func crowd(nodes int) (*Watch, []string) {
	w, names := New(policy), make([]string, nodes)
	for i := range nodes {
		n := node(model.True, at(0), at(0))
		n.Name = fmt.Sprintf("node-%06d.region.example", i)
		names[i] = n.Name
		w.See(n, start)
		w.Renewed(n.Name, start, start)
	}
	return w, names
}

// BenchmarkRenewed measures the leases of 150 000 nodes in the order of their arrival, each
// once per interval.
func BenchmarkRenewed(b *testing.B) {
	const nodes = 150_000
	w, names := crowd(nodes)
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
	w, names := crowd(nodes)
	b.ReportAllocs()
	now, i := start, 0
	for b.Loop() {
		now = now.Add(policy.Renewal / nodes)
		w.Renewed(names[i%nodes], now, now)
		i += 7919
		if next, _ := w.Next(); !next.After(now) {
			if silent := w.Silent(now); len(silent) > 0 {
				b.Fatalf("%d nodes fell silent", len(silent))
			}
		}
	}
}
