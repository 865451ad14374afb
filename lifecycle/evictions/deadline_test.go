package evictions_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

var start = time.Unix(1_000_000, 0)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// taint returns a NoExecute taint added at that second.
func taint(key string, since int) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: at(since)}
}

// swappedTaint returns a taint that replaced another one at turned, with the other one's time.
func swappedTaint(key string, since, turned int) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: at(since), Swapped: at(turned)}
}

// tolerates returns a toleration of a key without limit.
func tolerates(key string) model.Toleration {
	return model.Toleration{Key: key, Operator: model.Exists}
}

// toleratesFor returns a toleration of a key for the given seconds.
func toleratesFor(key string, seconds int64) model.Toleration {
	return model.Toleration{Key: key, Operator: model.Exists, Seconds: seconds, Bounded: true}
}

func TestDeadline_FollowsTolerations(t *testing.T) {
	const stays = -1
	type (
		tolerations = []model.Toleration
		taints      = []model.Taint
	)
	for _, c := range []struct {
		name string
		pod  model.Pod
		on   taints
		want int // seconds after the start
	}{
		{"no taints", model.Pod{}, nil, stays},
		{"no taints, bounded toleration", model.Pod{Tolerations: tolerations{toleratesFor("k", 9)}}, nil, stays},
		{"other effects", model.Pod{}, taints{{Key: "k", Effect: model.NoSchedule, Added: start}, {Key: "l", Effect: model.PreferNoSchedule}}, stays},
		{"one NoExecute taint among others", model.Pod{}, taints{{Key: "k", Effect: model.NoSchedule}, taint("l", 3), {Key: "m", Effect: model.PreferNoSchedule}}, 3},
		{"not tolerated", model.Pod{}, taints{taint("k", 5)}, 5},
		{"tolerated without limit", model.Pod{Tolerations: tolerations{tolerates("k")}}, taints{taint("k", 5)}, stays},
		{"tolerated for a time", model.Pod{Tolerations: tolerations{toleratesFor("k", 300)}}, taints{taint("k", 5)}, 305},
		{"tolerationSeconds 0", model.Pod{Tolerations: tolerations{toleratesFor("k", 0)}}, taints{taint("k", 5)}, 5},
		{"tolerationSeconds negative", model.Pod{Tolerations: tolerations{toleratesFor("k", -7)}}, taints{taint("k", 5)}, 5},
		{"unbounded with seconds", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Exists, Seconds: 7}}}, taints{taint("k", 5)}, stays},
		{"tolerationSeconds maximum", model.Pod{Tolerations: tolerations{toleratesFor("k", math.MaxInt64)}}, taints{taint("k", 5)}, stays},
		{"greater than, matching", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Greater, Value: "3"}}}, taints{{Key: "k", Value: "4", Effect: model.NoExecute, Added: at(5)}}, stays},
		{"greater than, not matching", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Greater, Value: "3"}}}, taints{{Key: "k", Value: "3", Effect: model.NoExecute, Added: at(5)}}, 5},
		{"less than, for a time", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Less, Value: "3", Seconds: 9, Bounded: true}}}, taints{{Key: "k", Value: "2", Effect: model.NoExecute, Added: at(5)}}, 14},
		{"operator of a later API", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.UnknownOperator, Value: "x"}}}, taints{taint("k", 5)}, stays},
		{"swap, previous tolerated without limit", model.Pod{Tolerations: tolerations{tolerates(model.KeyNotReady), toleratesFor(model.KeyUnreachable, 50)}}, taints{swappedTaint(model.KeyUnreachable, 5, 60)}, 110},
		{"reverse swap, previous tolerated without limit", model.Pod{Tolerations: tolerations{tolerates(model.KeyUnreachable), toleratesFor(model.KeyNotReady, 50)}}, taints{swappedTaint(model.KeyNotReady, 5, 60)}, 110},
		{"swap, all others tolerated without limit", model.Pod{Tolerations: tolerations{toleratesFor(model.KeyUnreachable, 50), tolerates("")}}, taints{swappedTaint(model.KeyUnreachable, 5, 60)}, 110},
		{"swap, new one not tolerated", model.Pod{Tolerations: tolerations{tolerates(model.KeyNotReady)}}, taints{swappedTaint(model.KeyUnreachable, 5, 60)}, 60},
		{"swap, previous tolerated for a time", model.Pod{Tolerations: tolerations{toleratesFor(model.KeyNotReady, 300), toleratesFor(model.KeyUnreachable, 50)}}, taints{swappedTaint(model.KeyUnreachable, 5, 60)}, 55},
		{"swap, first toleration of previous bounded", model.Pod{Tolerations: tolerations{toleratesFor(model.KeyNotReady, 300), tolerates(model.KeyNotReady), toleratesFor(model.KeyUnreachable, 50)}}, taints{swappedTaint(model.KeyUnreachable, 5, 60)}, 55},
		{"swap before the pod's creation", model.Pod{Created: at(70), Tolerations: tolerations{tolerates(model.KeyNotReady), toleratesFor(model.KeyUnreachable, 50)}}, taints{swappedTaint(model.KeyUnreachable, 5, 60)}, 120},
		{"invalid effect", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.InvalidOperator}}}, taints{taint("k", 5)}, 5},
		{"another effect", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Exists, Effect: model.NoSchedule}}}, taints{taint("k", 5)}, 5},
		{"everything tolerated", model.Pod{Tolerations: tolerations{tolerates("")}}, taints{taint("k", 5), taint("l", 6)}, stays},
		{"one of two not tolerated", model.Pod{Tolerations: tolerations{tolerates("k")}}, taints{taint("k", 5), taint("l", 6)}, 6},
		{"later one of two not tolerated", model.Pod{Tolerations: tolerations{toleratesFor("k", 100)}}, taints{taint("k", 5), taint("l", 6)}, 6},
		{"shorter of two", model.Pod{Tolerations: tolerations{toleratesFor("k", 200), toleratesFor("l", 100)}}, taints{taint("k", 0), taint("l", 0)}, 100},
		{"earlier end of two", model.Pod{Tolerations: tolerations{toleratesFor("k", 100), toleratesFor("l", 90)}}, taints{taint("k", 0), taint("l", 50)}, 100},
		{"one of two without limit", model.Pod{Tolerations: tolerations{tolerates("k"), toleratesFor("l", 100)}}, taints{taint("k", 0), taint("l", 0)}, 100},
		{"first match, second longer", model.Pod{Tolerations: tolerations{toleratesFor("k", 10), tolerates("k")}}, taints{taint("k", 0)}, 10},
		{"first match, second shorter", model.Pod{Tolerations: tolerations{tolerates("k"), toleratesFor("k", 10)}}, taints{taint("k", 0)}, stays},
		{"tolerations of other taints", model.Pod{Tolerations: tolerations{toleratesFor("l", 1), toleratesFor("k", 10)}}, taints{taint("k", 0)}, 10},
		{"pod created after the taint", model.Pod{Created: at(60), Tolerations: tolerations{toleratesFor("k", 10)}}, taints{taint("k", 0)}, 70},
		{"taint without timeAdded", model.Pod{Created: at(60), Tolerations: tolerations{toleratesFor("k", 10)}}, taints{{Key: "k", Effect: model.NoExecute}}, 70},
		{"finished", model.Pod{Finished: true}, taints{taint("k", 0)}, stays},
		{"already deleted", model.Pod{Deleting: true}, taints{taint("k", 0)}, stays},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := evictions.Deadline(&c.pod, c.on)
			switch {
			case ok != (c.want != stays):
				t.Errorf("got a deadline: %v, want %v", ok, c.want != stays)
			case ok && !got.Equal(at(c.want)):
				t.Errorf("got deadline %s, want %s", got.Sub(start), time.Duration(c.want)*time.Second)
			}
		})
	}
}

func randomPod(r *rand.Rand) *model.Pod {
	p := &model.Pod{Created: at(r.IntN(20)), Finished: r.IntN(20) == 0, Deleting: r.IntN(20) == 0}
	for range r.IntN(4) {
		p.Tolerations = append(p.Tolerations, model.Toleration{
			Key: []string{"a", "b", model.KeyNotReady, model.KeyUnreachable, ""}[r.IntN(5)], Operator: model.Operator(r.IntN(6)), Effect: model.Effect(r.IntN(4)),
			Seconds: int64(r.IntN(30) - 3), Bounded: r.IntN(3) > 0,
		})
	}
	return p
}

func randomTaints(r *rand.Rand) (taints []model.Taint) {
	for _, key := range []string{"a", "b", model.KeyNotReady, model.KeyUnreachable} {
		if r.IntN(2) == 0 {
			continue
		}
		taint := model.Taint{Key: key, Effect: model.NoSchedule + model.Effect(r.IntN(3)), Added: at(r.IntN(20))}
		if model.Opposite(key) != "" && r.IntN(2) == 0 {
			taint.Swapped = taint.Added.Add(time.Duration(1+r.IntN(20)) * time.Second)
		}
		taints = append(taints, taint)
	}
	return taints
}

// mayStay is a reference for one second: it reports whether no taint requires an eviction by then.
func mayStay(p *model.Pod, taints []model.Taint, now int) bool {
	for _, taint := range taints {
		if taint.Effect != model.NoExecute {
			continue
		}
		began := int(taint.Added.Sub(start).Seconds())
		if !taint.Swapped.IsZero() && secondsOfKey(p, model.Opposite(taint.Key)) == math.MaxInt {
			began = max(began, int(taint.Swapped.Sub(start).Seconds()))
		}
		tolerated := secondsOf(p, taint)
		if tolerated > 0 {
			began = max(began, int(p.Created.Sub(start).Seconds()))
		}
		if tolerated != math.MaxInt && now >= began+tolerated {
			return false
		}
	}
	return true
}

// secondsOfKey returns for how many seconds a pod tolerates a NoExecute taint of the key.
func secondsOfKey(p *model.Pod, key string) int {
	return secondsOf(p, model.Taint{Key: key, Effect: model.NoExecute})
}

func secondsOf(p *model.Pod, taint model.Taint) int {
	for _, t := range p.Tolerations {
		if t.Tolerates(&taint) {
			if !t.Bounded {
				return math.MaxInt
			}
			return max(0, int(t.Seconds))
		}
	}
	return 0
}

func TestDeadline_MatchesReference(t *testing.T) {
	for i := range 20_000 {
		r := rand.New(rand.NewPCG(3, uint64(i)))
		p, taints := randomPod(r), randomTaints(r)
		want := 0
		for want < 60 && (p.Finished || p.Deleting || mayStay(p, taints, want)) {
			want++
		}
		got, ok := evictions.Deadline(p, taints)
		if ok != (want < 60) || ok && !got.Equal(at(want)) {
			t.Fatalf("pod %d: %+v with %+v: got deadline %s, %v, want second %d", i, p, taints, got.Sub(start), ok, want)
		}
	}
}

func BenchmarkDeadline(b *testing.B) {
	p := &model.Pod{Created: start, Tolerations: []model.Toleration{toleratesFor(model.KeyNotReady, 300), toleratesFor(model.KeyUnreachable, 300)}}
	taints := []model.Taint{{Key: model.KeyUnreachable, Effect: model.NoSchedule}, taint(model.KeyUnreachable, 5)}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := evictions.Deadline(p, taints); !ok {
			b.Fatal("got no deadline")
		}
	}
}
