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

// asked returns the pod p on node a, with an eviction request of the agent there at that
// second.
func asked(since int) *model.Pod {
	return &model.Pod{Name: "p", UID: "p", Node: "a", Asked: &model.Request{Cause: "memory.available", GraceSeconds: 30, Since: at(since)}}
}

func pressed(conditions ...string) *model.Node { return &model.Node{Name: "a", Pressures: conditions} }

func tainted(key string) *model.Node {
	return &model.Node{Name: "a", Taints: []model.Taint{{Key: key, Effect: model.NoSchedule}}}
}

// teller runs a watch through a story.
type teller struct {
	*testing.T
	*Watch
	last map[string]Task // by subject
}

func (t *teller) renew(now int) { t.Renewed("a", at(now), at(now)) }

// at expects the tasks of a second: evict or clear, and the subject.
func (t *teller) at(now int, want string) {
	t.Helper()
	next, ok := t.Next()
	var got []string
	for _, task := range t.Act(at(now)) {
		what := "clear " + task.ClearNode
		if task.EvictPod != nil {
			what = "evict " + task.EvictPod.UID
		}
		t.last[what] = task
		got = append(got, what)
	}
	if found := strings.Join(got, ", "); found != want {
		t.Errorf("at %d: %q instead of %q", now, found, want)
	}
	if len(got) > 0 && (!ok || next.After(at(now))) {
		t.Errorf("at %d: had tasks, but waited until %v, %v", now, next.Sub(start), ok)
	}
}

func (t *teller) finish(what string, err error, now int) { t.Finished(t.last[what], err, at(now)) }

var stories = map[string]func(t *teller){
	"an agent that asks is heard": func(t *teller) {
		t.renew(0)
		t.Pod(asked(0), at(0))
		t.at(0, "evict p")
		t.at(5, "")
		t.finish("evict p", nil, 5)
		t.Gone("p")
		t.at(500, "")
	},
	"a pod that nobody asks for is left alone, and so is one that ends": func(t *teller) {
		t.renew(0)
		plain, finished, deleting := asked(0), asked(0), asked(0)
		plain.Asked, finished.Finished, deleting.Deleting = nil, true, true
		for _, p := range []*model.Pod{plain, finished, deleting} {
			t.Pod(p, at(0))
			t.at(0, "")
		}
	},
	"a budget that refuses is asked again, more and more slowly": func(t *teller) {
		t.Pod(asked(0), at(0))
		now := 0
		for _, pause := range []int{0, 10, 20, 40, 80, 120, 120} {
			t.renew(now + pause - 1)
			t.at(now+pause-1, "")
			now += pause
			t.renew(now)
			t.at(now, "evict p")
			t.finish("evict p", errRefused, now)
		}
	},
	"what was granted is asked for again if nothing comes of it": func(t *teller) {
		t.renew(0)
		t.Pod(asked(0), at(0))
		t.at(0, "evict p")
		t.finish("evict p", nil, 1)
		t.renew(120)
		t.at(120, "")
		t.at(121, "evict p")
	},
	"a request that is withdrawn": func(t *teller) {
		t.renew(0)
		t.Pod(asked(0), at(0))
		p := asked(0)
		p.Asked = nil
		t.Pod(p, at(1))
		t.at(2, "")
	},
	"a request that is withdrawn while it is carried out, and made again": func(t *teller) {
		t.renew(0)
		t.Pod(asked(0), at(0))
		t.at(0, "evict p")
		t.Gone("p")
		t.Pod(asked(1), at(1))
		t.at(1, "")
		t.finish("evict p", errRefused, 2)
		t.at(11, "")
		t.at(12, "evict p")
	},
	"a pod that changes is asked for once": func(t *teller) {
		t.renew(0)
		t.Pod(asked(0), at(0))
		t.at(0, "evict p")
		t.finish("evict p", errRefused, 0)
		t.Pod(asked(0), at(1))
		t.at(9, "")
	},
	"a new request does not wait for the old one's back-off": func(t *teller) {
		t.renew(0)
		t.Pod(asked(0), at(0))
		t.at(0, "evict p")
		t.finish("evict p", errRefused, 0)
		t.Pod(asked(1), at(1))
		t.at(1, "evict p")
	},
	"an agent that is not alive has no say until it is": func(t *teller) {
		t.Pod(asked(0), at(0))
		t.at(0, "")
		t.Renewed("a", at(-60), at(1))
		t.at(1, "")
		t.renew(5)
		t.at(5, "evict p")
		t.finish("evict p", errRefused, 5)
		t.at(45, "")
		t.renew(46)
		t.at(46, "evict p")
	},
	"an agent that went has no say": func(t *teller) {
		t.renew(0)
		t.Unleased("a", at(1))
		t.Pod(asked(0), at(1))
		t.at(1, "")
	},
	"what was put aside and is gone does not come back": func(t *teller) {
		t.Pod(asked(0), at(0))
		t.at(0, "")
		t.Gone("p")
		t.renew(1)
		t.at(1, "")
	},
	"a request of more than an hour ago is too old": func(t *teller) {
		t.renew(3600)
		t.Pod(asked(0), at(3600))
		t.at(3600, "evict p")
		t.finish("evict p", errRefused, 3600)
		t.renew(3610)
		t.at(3610, "")
		t.Pod(asked(0), at(3611))
		t.at(3700, "")
	},
	"a request of the future is of now": func(t *teller) {
		t.Pod(asked(100_000), at(0))
		t.at(0, "")
		t.renew(3601)
		t.at(3601, "")
	},
	"what a dead agent left is cleared": func(t *teller) {
		t.renew(0)
		t.See(pressed("plimsoll.dev/Memory"), at(5))
		t.renew(10)
		t.at(45, "")
		t.at(49, "")
		t.at(50, "clear a")
		t.at(51, "")
		t.finish("clear a", nil, 51)
		t.See(pressed(), at(51))
		t.at(500, "")
	},
	"taints are cleared, those of others are not": func(t *teller) {
		t.See(tainted("example.com/memory"), at(0))
		t.at(100, "")
		t.See(tainted("plimsoll.dev/memory"), at(100))
		t.at(140, "clear a")
	},
	"what a living agent says stands": func(t *teller) {
		t.See(pressed("plimsoll.dev/Memory"), at(0))
		for now := 0; now < 400; now += 10 {
			t.renew(now)
			t.at(now, "")
		}
	},
	"an agent that was never heard has the grace to show itself": func(t *teller) {
		t.Renewed("a", at(-500), at(0)) // its clock may be wrong
		t.See(pressed("plimsoll.dev/Memory"), at(0))
		t.at(39, "")
		t.Renewed("a", at(-490), at(39))
		t.at(40, "")
		t.at(79, "clear a")
	},
	"an agent that came back after a long time has what it says now": func(t *teller) {
		t.renew(0)
		t.See(pressed("plimsoll.dev/Memory"), at(500))
		t.at(500, "")
		t.at(540, "clear a")
	},
	"a clearance that fails is repeated": func(t *teller) {
		t.See(pressed("plimsoll.dev/Memory"), at(0))
		now := 40
		for _, pause := range []int{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			t.at(now+pause-1, "")
			now += pause
			t.at(now, "clear a")
			t.finish("clear a", errRefused, now)
		}
	},
	"a clearance after which everything stands is repeated": func(t *teller) {
		t.See(pressed("plimsoll.dev/Memory"), at(0))
		t.at(40, "clear a")
		t.See(pressed(), at(41))
		t.See(pressed("plimsoll.dev/Disk"), at(42))
		t.finish("clear a", nil, 43)
		t.at(102, "")
		t.at(103, "clear a")
	},
	"a node that is deleted needs no clearance": func(t *teller) {
		t.See(pressed("plimsoll.dev/Memory"), at(0))
		t.Forget("a")
		t.at(40, "")
	},
	"nor one that is deleted meanwhile": func(t *teller) {
		t.See(pressed("plimsoll.dev/Memory"), at(0))
		t.at(40, "clear a")
		t.Forget("a")
		t.finish("clear a", errRefused, 41)
		t.at(500, "")
	},
	"evictions come first, equal ones by their UID": func(t *teller) {
		t.See(&model.Node{Name: "b", Pressures: []string{"plimsoll.dev/Memory"}}, at(-100))
		t.renew(0)
		for _, uid := range []string{"r", "q"} {
			p := asked(0)
			p.UID = uid
			t.Pod(p, at(1))
		}
		t.at(1, "evict q, evict r, clear b")
	},
}

func TestStories(t *testing.T) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			story(&teller{T: t, Watch: New(policy), last: map[string]Task{}})
		})
	}
}

func TestAlive(t *testing.T) {
	w := New(policy)
	if w.Alive("a", at(0)) {
		t.Error("alive without having been heard")
	}
	w.Renewed("a", at(-3600), at(0))
	if w.Alive("a", at(0)) {
		t.Error("alive by an old lease")
	}
	w.Renewed("a", at(-3590), at(10))
	if silent, ok := w.SilentAt("a"); !ok || !silent.Equal(at(50)) {
		t.Errorf("silent at %v, %v", silent, ok)
	}
	if !w.Alive("a", at(50).Add(-1)) || w.Alive("a", at(50)) {
		t.Error("not alive for the grace exactly")
	}
	w.Renewed("a", at(-3590), at(45))
	if w.Alive("a", at(50)) {
		t.Error("alive by the same lease, seen once more")
	}
	w.Unleased("a", at(46))
	if _, ok := w.SilentAt("a"); ok || w.Alive("a", at(46)) {
		t.Error("alive without a lease")
	}
}

func TestNothingIsKeptOfWhoIsGone(t *testing.T) {
	w := New(policy)
	w.Renewed("a", at(0), at(0))
	w.See(pressed("plimsoll.dev/Memory"), at(0))
	w.Pod(asked(0), at(0))
	w.Unleased("a", at(1))
	tasks := w.Act(at(60))
	w.See(pressed(), at(61))
	w.Gone("p")
	for _, task := range tasks {
		w.Finished(task, nil, at(62))
	}
	if left := fmt.Sprint(len(w.nodes), len(w.requests), len(w.parked), w.clearing.Len(), w.asking.Len()); left != "0 0 0 0 0" {
		t.Errorf("left: %s", left)
	}
	if _, ok := w.Next(); ok {
		t.Error("waits for nobody")
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
	w.Pod(asked(0), start)
	w.Act(start) // one is postponed
	b.ReportAllocs()
	now, i := start, 0
	for b.Loop() {
		now = now.Add(10 * time.Second / nodes)
		w.Renewed(names[i%nodes], now, now)
		i += 7919
	}
}
