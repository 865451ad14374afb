package agents

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

var (
	policy     = Policy{Grace: 40 * time.Second}
	start      = time.Unix(1_700_000_000, 0)
	errRefused = errors.New("a disruption budget refuses")
)

func at(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// requesting returns pod p on node a, with an eviction request of its agent at that second.
func requesting(since int) *model.Pod {
	return &model.Pod{Name: "p", UID: "p", Node: "a", Requested: &model.Request{Cause: "memory.available", GraceSeconds: 30, Since: at(since)}}
}

func withPressure(conditions ...string) *model.Node {
	return &model.Node{Name: "a", Pressures: conditions}
}

func tainted(key string) *model.Node {
	return &model.Node{Name: "a", Taints: []model.Taint{{Key: key, Effect: model.NoSchedule}}}
}

// harness passes events to a watch and checks its tasks.
type harness struct {
	*testing.T
	*Watch
	last map[string]Task // by subject
}

func (t *harness) renew(now int) { t.Renewed("a", at(now), at(now)) }

// expect expects the tasks of a second: evict or clear, and the subject.
func (t *harness) expect(now int, want string) {
	t.Helper()
	next, ok := t.Next()
	var got []string
	for _, task := range t.Act(at(now)) {
		name := "clear " + task.ClearNode
		if task.EvictPod != nil {
			name = "evict " + task.EvictPod.UID
		}
		t.last[name] = task
		got = append(got, name)
	}
	if found := strings.Join(got, ", "); found != want {
		t.Errorf("at %d: got tasks %q, want %q", now, found, want)
	}
	if len(got) > 0 && (!ok || next.After(at(now))) {
		t.Errorf("at %d: got tasks, but next was %v, %v", now, next.Sub(start), ok)
	}
}

func (t *harness) finish(name string, err error, now int) { t.Finished(t.last[name], err, at(now)) }

var scenarios = map[string]func(t *harness){
	"request of a living agent": func(t *harness) {
		t.renew(0)
		t.Pod(requesting(0), at(0))
		t.expect(0, "evict p")
		t.expect(5, "")
		t.finish("evict p", nil, 5)
		t.Gone("p")
		t.expect(500, "")
	},
	"pod without a request, finished or deleting": func(t *harness) {
		t.renew(0)
		plain, finished, deleting := requesting(0), requesting(0), requesting(0)
		plain.Requested, finished.Finished, deleting.Deleting = nil, true, true
		for _, p := range []*model.Pod{plain, finished, deleting} {
			t.Pod(p, at(0))
			t.expect(0, "")
		}
	},
	"refusal by a budget": func(t *harness) {
		t.Pod(requesting(0), at(0))
		now := 0
		for _, pause := range []int{0, 10, 20, 40, 80, 120, 120} {
			t.renew(now + pause - 1)
			t.expect(now+pause-1, "")
			now += pause
			t.renew(now)
			t.expect(now, "evict p")
			t.finish("evict p", errRefused, now)
		}
	},
	"granted eviction without effect": func(t *harness) {
		t.renew(0)
		t.Pod(requesting(0), at(0))
		t.expect(0, "evict p")
		t.finish("evict p", nil, 1)
		t.renew(120)
		t.expect(120, "")
		t.expect(121, "evict p")
	},
	"withdrawn request": func(t *harness) {
		t.renew(0)
		t.Pod(requesting(0), at(0))
		p := requesting(0)
		p.Requested = nil
		t.Pod(p, at(1))
		t.expect(2, "")
	},
	"request withdrawn and repeated during its task": func(t *harness) {
		t.renew(0)
		t.Pod(requesting(0), at(0))
		t.expect(0, "evict p")
		t.Gone("p")
		t.Pod(requesting(1), at(1))
		t.expect(1, "")
		t.finish("evict p", errRefused, 2)
		t.expect(11, "")
		t.expect(12, "evict p")
	},
	"changed pod, same request": func(t *harness) {
		t.renew(0)
		t.Pod(requesting(0), at(0))
		t.expect(0, "evict p")
		t.finish("evict p", errRefused, 0)
		t.Pod(requesting(0), at(1))
		t.expect(9, "")
	},
	"new request during a backoff": func(t *harness) {
		t.renew(0)
		t.Pod(requesting(0), at(0))
		t.expect(0, "evict p")
		t.finish("evict p", errRefused, 0)
		t.Pod(requesting(1), at(1))
		t.expect(1, "evict p")
	},
	"request of a dead agent": func(t *harness) {
		t.Pod(requesting(0), at(0))
		t.expect(0, "")
		t.Renewed("a", at(-60), at(1))
		t.expect(1, "")
		t.renew(5)
		t.expect(5, "evict p")
		t.finish("evict p", errRefused, 5)
		t.expect(45, "")
		t.renew(46)
		t.expect(46, "evict p")
	},
	"request without a lease": func(t *harness) {
		t.renew(0)
		t.Unleased("a", at(1))
		t.Pod(requesting(0), at(1))
		t.expect(1, "")
	},
	"parked request of a deleted pod": func(t *harness) {
		t.Pod(requesting(0), at(0))
		t.expect(0, "")
		t.Gone("p")
		t.renew(1)
		t.expect(1, "")
	},
	"expired request": func(t *harness) {
		t.renew(3600)
		t.Pod(requesting(0), at(3600))
		t.expect(3600, "evict p")
		t.finish("evict p", errRefused, 3600)
		t.renew(3610)
		t.expect(3610, "")
		t.Pod(requesting(0), at(3611))
		t.expect(3700, "")
	},
	"request in the future": func(t *harness) {
		t.Pod(requesting(100_000), at(0))
		t.expect(0, "")
		t.renew(3601)
		t.expect(3601, "")
	},
	"leftovers of a dead agent": func(t *harness) {
		t.renew(0)
		t.Node(withPressure("plimsoll.dev/Memory"), at(5))
		t.renew(10)
		t.expect(45, "")
		t.expect(49, "")
		t.expect(50, "clear a")
		t.expect(51, "")
		t.finish("clear a", nil, 51)
		t.Node(withPressure(), at(51))
		t.expect(500, "")
	},
	"leftover taints": func(t *harness) {
		t.Node(tainted("example.com/memory"), at(0))
		t.expect(100, "")
		t.Node(tainted("plimsoll.dev/memory"), at(100))
		t.expect(140, "clear a")
	},
	"conditions of a living agent": func(t *harness) {
		t.Node(withPressure("plimsoll.dev/Memory"), at(0))
		for now := 0; now < 400; now += 10 {
			t.renew(now)
			t.expect(now, "")
		}
	},
	"first observation of an agent": func(t *harness) {
		t.Renewed("a", at(-500), at(0)) // its clock may be wrong
		t.Node(withPressure("plimsoll.dev/Memory"), at(0))
		t.expect(39, "")
		t.Renewed("a", at(-490), at(39))
		t.expect(40, "")
		t.expect(79, "clear a")
	},
	"conditions set long after the last renewal": func(t *harness) {
		t.renew(0)
		t.Node(withPressure("plimsoll.dev/Memory"), at(500))
		t.expect(500, "")
		t.expect(540, "clear a")
	},
	"failed cleanup": func(t *harness) {
		t.Node(withPressure("plimsoll.dev/Memory"), at(0))
		now := 40
		for _, pause := range []int{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			t.expect(now+pause-1, "")
			now += pause
			t.expect(now, "clear a")
			t.finish("clear a", errRefused, now)
		}
	},
	"cleanup without effect": func(t *harness) {
		t.Node(withPressure("plimsoll.dev/Memory"), at(0))
		t.expect(40, "clear a")
		t.Node(withPressure(), at(41))
		t.Node(withPressure("plimsoll.dev/Disk"), at(42))
		t.finish("clear a", nil, 43)
		t.expect(102, "")
		t.expect(103, "clear a")
	},
	"deleted node": func(t *harness) {
		t.Node(withPressure("plimsoll.dev/Memory"), at(0))
		t.Forget("a")
		t.expect(40, "")
	},
	"node deleted during its cleanup": func(t *harness) {
		t.Node(withPressure("plimsoll.dev/Memory"), at(0))
		t.expect(40, "clear a")
		t.Forget("a")
		t.finish("clear a", errRefused, 41)
		t.expect(500, "")
	},
	"order of tasks": func(t *harness) {
		t.Node(&model.Node{Name: "b", Pressures: []string{"plimsoll.dev/Memory"}}, at(-100))
		t.renew(0)
		for _, uid := range []string{"r", "q"} {
			p := requesting(0)
			p.UID = uid
			t.Pod(p, at(1))
		}
		t.expect(1, "evict q, evict r, clear b")
	},
}

func TestWatch_FollowsEvents(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			scenario(&harness{T: t, Watch: New(policy), last: map[string]Task{}})
		})
	}
}

func TestAlive_WithinGraceOfRenewal(t *testing.T) {
	w := New(policy)
	if w.Alive("a", at(0)) {
		t.Error("alive without a renewal")
	}
	w.Renewed("a", at(-3600), at(0))
	if w.Alive("a", at(0)) {
		t.Error("alive by an old lease")
	}
	w.Renewed("a", at(-3590), at(10))
	if silent, ok := w.ExpiresAt("a"); !ok || !silent.Equal(at(50)) {
		t.Errorf("ExpiresAt: got %v, %v, want second 50", silent, ok)
	}
	if !w.Alive("a", at(50).Add(-1)) || w.Alive("a", at(50)) {
		t.Error("the agent was not alive for exactly the grace period")
	}
	w.Renewed("a", at(-3590), at(45))
	if w.Alive("a", at(50)) {
		t.Error("alive by an unchanged lease")
	}
	w.Unleased("a", at(46))
	if _, ok := w.ExpiresAt("a"); ok || w.Alive("a", at(46)) {
		t.Error("alive without a lease")
	}
}

func TestWatch_ReleasesStateOfDeletedNode(t *testing.T) {
	w := New(policy)
	w.Renewed("a", at(0), at(0))
	w.Node(withPressure("plimsoll.dev/Memory"), at(0))
	w.Pod(requesting(0), at(0))
	w.Unleased("a", at(1))
	tasks := w.Act(at(60))
	w.Node(withPressure(), at(61))
	w.Gone("p")
	for _, task := range tasks {
		w.Finished(task, nil, at(62))
	}
	if left := fmt.Sprint(len(w.nodes), len(w.requests), len(w.parked), w.cleanups.Len(), w.evictions.Len()); left != "0 0 0 0 0" {
		t.Errorf("entries left: %s", left)
	}
	if _, ok := w.Next(); ok {
		t.Error("Next returned a time without tasks")
	}
}

func BenchmarkRenewed(b *testing.B) {
	const nodes = 150_000
	w := New(policy)
	names := make([]string, nodes)
	for i := range nodes {
		names[i] = fmt.Sprintf("node-%06d.region.example", i)
		w.Renewed(names[i], start, start)
	}
	w.Pod(requesting(0), start)
	w.Act(start) // parks the request
	b.ReportAllocs()
	now, i := start, 0
	for b.Loop() {
		now = now.Add(10 * time.Second / nodes)
		w.Renewed(names[i%nodes], now, now)
		i += 7919
	}
}
