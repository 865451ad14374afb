package agents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// reference is a model of Watch that checks every pod and every node each time.
type reference struct {
	nodes map[string]*referenceNode
	pods  map[string]*referencePod
}

type referenceNode struct {
	lease               *time.Time
	last, since         time.Time
	leftovers, inFlight bool
	notBefore           time.Time
	fails               int
}

type referencePod struct {
	*model.Pod
	requested, inFlight bool
	seen                time.Time // first arrival of the request
	notBefore           time.Time
	fails               int
}

func (v *reference) node(name string) *referenceNode {
	if v.nodes[name] == nil {
		v.nodes[name] = &referenceNode{}
	}
	return v.nodes[name]
}

func (v *reference) renewed(name string, renewTime, seen time.Time) {
	n := v.node(name)
	seenAt := seen
	switch {
	case n.lease != nil && n.lease.Equal(renewTime):
		seenAt = n.last
	case n.lease == nil && renewTime.Before(seen):
		seenAt = renewTime
	}
	if seenAt.After(n.last) {
		n.last = seenAt
	}
	n.lease = &renewTime
}

func (v *reference) unleased(name string) {
	n := v.node(name)
	n.lease = nil
	v.drop(name)
}

// drop removes the state of a node without a lease, leftovers and tasks.
func (v *reference) drop(name string) {
	if n := v.nodes[name]; n.lease == nil && !n.leftovers && !n.inFlight {
		delete(v.nodes, name)
	}
}

func (v *reference) alive(name string, now time.Time) bool {
	n := v.nodes[name]
	return n != nil && n.lease != nil && now.Sub(n.last) < policy.Grace
}

func (v *reference) see(name string, leftovers bool, now time.Time) {
	n := v.node(name)
	if n.leftovers != leftovers {
		n.leftovers, n.since, n.fails, n.notBefore = leftovers, now, 0, now
	}
	v.drop(name)
}

func (v *reference) pod(p *model.Pod, now time.Time) {
	was := v.pods[p.UID]
	switch {
	case was != nil && (p.Requested == nil || p.Deleting):
		was.requested = false
	case p.Requested == nil || p.Deleting:
	case was != nil && was.requested && was.Requested.Since.Equal(p.Requested.Since):
		was.Pod = p
	default:
		is := &referencePod{Pod: p, requested: true, seen: now, notBefore: now}
		is.inFlight = was != nil && was.inFlight
		v.pods[p.UID] = is
	}
}

func (v *reference) tasks(now time.Time) (names []string) {
	for uid, p := range v.pods {
		age := min(now.Sub(p.Requested.Since), now.Sub(p.seen)+max(0, p.seen.Sub(p.Requested.Since)))
		if p.requested && !p.inFlight && !now.Before(p.notBefore) && age <= time.Hour && v.alive(p.Node, now) {
			p.inFlight = true
			names = append(names, "evict "+uid)
		}
	}
	for name, n := range v.nodes {
		silent := now.Sub(n.last) >= policy.Grace && now.Sub(n.since) >= policy.Grace
		if n.leftovers && !n.inFlight && silent && !now.Before(n.notBefore) {
			n.inFlight = true
			names = append(names, "clear "+name)
		}
	}
	slices.Sort(names)
	return names
}

func backoffAfter(first, limit time.Duration, fails int) time.Duration {
	if fails == 0 {
		return limit
	}
	for range fails - 1 {
		first = min(2*first, limit)
	}
	return first
}

func (v *reference) finished(t Task, err error, now time.Time) {
	if t.EvictPod != nil {
		p := v.pods[t.EvictPod.UID]
		if p.inFlight = false; err == nil {
			p.fails = 0
		} else {
			p.fails++
		}
		p.notBefore = now.Add(backoffAfter(10*time.Second, 2*time.Minute, p.fails))
		return
	}
	n := v.nodes[t.ClearNode]
	if n == nil {
		return
	}
	if n.inFlight = false; err == nil {
		n.fails = 0
	} else {
		n.fails++
	}
	n.notBefore = now.Add(backoffAfter(time.Second, time.Minute, n.fails))
	v.drop(t.ClearNode)
}

type env struct {
	*rand.Rand
	now      time.Time
	inFlight []Task
	count    int
	w        *Watch
	ref      *reference
}

func (r *env) randomEvent() {
	name := string(rune('a' + r.IntN(3)))
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		renewTime := r.now.Add(time.Duration(r.IntN(60)-50) * time.Second)
		seen := r.now.Add(-time.Duration(r.IntN(3)) * time.Second)
		r.w.Renewed(name, renewTime, seen)
		r.ref.renewed(name, renewTime, seen)
	case 4:
		r.w.Unleased(name, r.now)
		r.ref.unleased(name)
	case 5, 6:
		leftovers := r.IntN(3) > 0
		n := &model.Node{Name: name}
		if leftovers {
			n.Pressures = []string{"plimsoll.dev/Memory"}
		}
		r.w.Node(n, r.now)
		r.ref.see(name, leftovers, r.now)
	case 7, 8, 9:
		p := r.pod()
		r.w.Pod(p, r.now)
		r.ref.pod(p, r.now)
	case 10:
		r.finish()
	case 11:
		if r.IntN(4) == 0 {
			r.w.Forget(name)
			delete(r.ref.nodes, name)
		}
	}
}

func (r *env) pod() *model.Pod {
	i := r.IntN(6)
	p := &model.Pod{UID: fmt.Sprint(i), Node: string(rune('a' + i%3)), Deleting: r.IntN(8) == 0}
	if r.IntN(4) > 0 {
		p.Requested = &model.Request{GraceSeconds: 30, Since: start.Add(time.Duration(r.IntN(4)*400-3700) * time.Second)}
	}
	return p
}

func (r *env) finish() {
	if len(r.inFlight) == 0 {
		return
	}
	i := r.IntN(len(r.inFlight))
	t, err := r.inFlight[i], error(nil)
	if r.inFlight = slices.Delete(r.inFlight, i, i+1); r.IntN(2) == 0 {
		err = errRefused
	}
	r.w.Finished(t, err, r.now)
	r.ref.finished(t, err, r.now)
}

func (r *env) compare() string {
	next, waits := r.w.Next()
	tasks := r.w.Act(r.now)
	var got []string
	for _, t := range tasks {
		if t.EvictPod != nil {
			got = append(got, "evict "+t.EvictPod.UID)
		} else {
			got = append(got, "clear "+t.ClearNode)
		}
	}
	slices.Sort(got)
	r.inFlight, r.count = append(r.inFlight, tasks...), r.count+len(tasks)
	if want := r.ref.tasks(r.now); !slices.Equal(got, want) {
		return fmt.Sprintf("got tasks %v, want %v", got, want)
	}
	if len(got) > 0 && (!waits || next.After(r.now)) {
		return fmt.Sprintf("got tasks %v, but next was %v, %v", got, next.Sub(start), waits)
	}
	for _, name := range []string{"a", "b", "c"} {
		if r.w.Alive(name, r.now) != r.ref.alive(name, r.now) {
			return fmt.Sprintf("%s: Alive returned %v", name, r.w.Alive(name, r.now))
		}
	}
	return ""
}

func TestWatch_MatchesReference(t *testing.T) {
	const timelines, steps = 1500, 200
	tasks := 0
	for seed := range uint64(timelines) {
		r := &env{Rand: rand.New(rand.NewPCG(seed, 3)), now: start, w: New(policy), ref: &reference{map[string]*referenceNode{}, map[string]*referencePod{}}}
		for step := range steps {
			r.now = r.now.Add(time.Duration(r.IntN(7)) * time.Second)
			r.randomEvent()
			if diff := r.compare(); diff != "" {
				t.Fatalf("timeline %d, step %d, at %v: %s", seed, step, r.now.Sub(start), diff)
			}
		}
		tasks += r.count
	}
	if tasks < 5*timelines {
		t.Errorf("only %d tasks in %d timelines", tasks, timelines)
	}
}
