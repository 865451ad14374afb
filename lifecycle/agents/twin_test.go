package agents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// naive is the reference model: it checks every pod and every node at every moment.
type naive struct {
	nodes map[string]*naiveNode
	pods  map[string]*naivePod
}

type naiveNode struct {
	lease          *time.Time
	last, since    time.Time
	littered, busy bool
	notBefore      time.Time
	fails          int
}

type naivePod struct {
	*model.Pod
	wanted, busy bool
	seen         time.Time // first arrival of the request
	notBefore    time.Time
	fails        int
}

func (v *naive) node(name string) *naiveNode {
	if v.nodes[name] == nil {
		v.nodes[name] = &naiveNode{}
	}
	return v.nodes[name]
}

func (v *naive) renewed(name string, renewTime, seen time.Time) {
	n := v.node(name)
	heard := seen
	switch {
	case n.lease != nil && n.lease.Equal(renewTime):
		heard = n.last
	case n.lease == nil && renewTime.Before(seen):
		heard = renewTime
	}
	if heard.After(n.last) {
		n.last = heard
	}
	n.lease = &renewTime
}

func (v *naive) unleased(name string) {
	n := v.node(name)
	n.lease = nil
	v.tidy(name)
}

// tidy removes the state of a node of which nothing is known.
func (v *naive) tidy(name string) {
	if n := v.nodes[name]; n.lease == nil && !n.littered && !n.busy {
		delete(v.nodes, name)
	}
}

func (v *naive) alive(name string, now time.Time) bool {
	n := v.nodes[name]
	return n != nil && n.lease != nil && now.Sub(n.last) < policy.Grace
}

func (v *naive) see(name string, littered bool, now time.Time) {
	n := v.node(name)
	if n.littered != littered {
		n.littered, n.since, n.fails, n.notBefore = littered, now, 0, now
	}
	v.tidy(name)
}

func (v *naive) pod(p *model.Pod, now time.Time) {
	was := v.pods[p.UID]
	switch {
	case was != nil && (p.Asked == nil || p.Deleting):
		was.wanted = false
	case p.Asked == nil || p.Deleting:
	case was != nil && was.wanted && was.Asked.Since.Equal(p.Asked.Since):
		was.Pod = p
	default:
		is := &naivePod{Pod: p, wanted: true, seen: now, notBefore: now}
		is.busy = was != nil && was.busy
		v.pods[p.UID] = is
	}
}

func (v *naive) tasks(now time.Time) (names []string) {
	for uid, p := range v.pods {
		age := min(now.Sub(p.Asked.Since), now.Sub(p.seen)+max(0, p.seen.Sub(p.Asked.Since)))
		if p.wanted && !p.busy && !now.Before(p.notBefore) && age <= time.Hour && v.alive(p.Node, now) {
			p.busy = true
			names = append(names, "evict "+uid)
		}
	}
	for name, n := range v.nodes {
		quiet := now.Sub(n.last) >= policy.Grace && now.Sub(n.since) >= policy.Grace
		if n.littered && !n.busy && quiet && !now.Before(n.notBefore) {
			n.busy = true
			names = append(names, "clear "+name)
		}
	}
	slices.Sort(names)
	return names
}

func pause(first, most time.Duration, fails int) time.Duration {
	if fails == 0 {
		return most
	}
	for range fails - 1 {
		first = min(2*first, most)
	}
	return first
}

func (v *naive) finished(t Task, err error, now time.Time) {
	if t.EvictPod != nil {
		p := v.pods[t.EvictPod.UID]
		if p.busy = false; err == nil {
			p.fails = 0
		} else {
			p.fails++
		}
		p.notBefore = now.Add(pause(10*time.Second, 2*time.Minute, p.fails))
		return
	}
	n := v.nodes[t.ClearNode]
	if n == nil {
		return
	}
	if n.busy = false; err == nil {
		n.fails = 0
	} else {
		n.fails++
	}
	n.notBefore = now.Add(pause(time.Second, time.Minute, n.fails))
	v.tidy(t.ClearNode)
}

type world struct {
	*rand.Rand
	now  time.Time
	out  []Task
	told int
	w    *Watch
	twin *naive
}

func (r *world) happens() {
	name := string(rune('a' + r.IntN(3)))
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		renewTime := r.now.Add(time.Duration(r.IntN(60)-50) * time.Second)
		seen := r.now.Add(-time.Duration(r.IntN(3)) * time.Second)
		r.w.Renewed(name, renewTime, seen)
		r.twin.renewed(name, renewTime, seen)
	case 4:
		r.w.Unleased(name, r.now)
		r.twin.unleased(name)
	case 5, 6:
		littered := r.IntN(3) > 0
		n := &model.Node{Name: name}
		if littered {
			n.Pressures = []string{"plimsoll.dev/Memory"}
		}
		r.w.See(n, r.now)
		r.twin.see(name, littered, r.now)
	case 7, 8, 9:
		p := r.pod()
		r.w.Pod(p, r.now)
		r.twin.pod(p, r.now)
	case 10:
		r.finish()
	case 11:
		if r.IntN(4) == 0 {
			r.w.Forget(name)
			delete(r.twin.nodes, name)
		}
	}
}

func (r *world) pod() *model.Pod {
	i := r.IntN(6)
	p := &model.Pod{UID: fmt.Sprint(i), Node: string(rune('a' + i%3)), Deleting: r.IntN(8) == 0}
	if r.IntN(4) > 0 {
		p.Asked = &model.Request{GraceSeconds: 30, Since: start.Add(time.Duration(r.IntN(4)*400-3700) * time.Second)}
	}
	return p
}

func (r *world) finish() {
	if len(r.out) == 0 {
		return
	}
	i := r.IntN(len(r.out))
	t, err := r.out[i], error(nil)
	if r.out = slices.Delete(r.out, i, i+1); r.IntN(2) == 0 {
		err = errRefused
	}
	r.w.Finished(t, err, r.now)
	r.twin.finished(t, err, r.now)
}

func (r *world) compare() string {
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
	r.out, r.told = append(r.out, tasks...), r.told+len(tasks)
	if want := r.twin.tasks(r.now); !slices.Equal(got, want) {
		return fmt.Sprintf("%v instead of %v", got, want)
	}
	if len(got) > 0 && (!waits || next.After(r.now)) {
		return fmt.Sprintf("%v, but waited until %v, %v", got, next.Sub(start), waits)
	}
	for _, name := range []string{"a", "b", "c"} {
		if r.w.Alive(name, r.now) != r.twin.alive(name, r.now) {
			return fmt.Sprintf("%s is alive: %v", name, r.w.Alive(name, r.now))
		}
	}
	return ""
}

func TestWatchIsItsNaiveTwin(t *testing.T) {
	const timelines, steps = 1500, 200
	tasks := 0
	for seed := range uint64(timelines) {
		r := &world{Rand: rand.New(rand.NewPCG(seed, 3)), now: start, w: New(policy), twin: &naive{map[string]*naiveNode{}, map[string]*naivePod{}}}
		for step := range steps {
			r.now = r.now.Add(time.Duration(r.IntN(7)) * time.Second)
			r.happens()
			if fault := r.compare(); fault != "" {
				t.Fatalf("timeline %d, step %d, at %v: %s", seed, step, r.now.Sub(start), fault)
			}
		}
		tasks += r.told
	}
	if tasks < 5*timelines {
		t.Errorf("only %d tasks in %d timelines: they show nothing", tasks, timelines)
	}
}
