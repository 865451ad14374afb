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

// taint evicts pods that do not tolerate it, since that second.
func taint(key string, since int) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: at(since)}
}

// swapped replaced another taint at turned, and keeps the time of that one.
func swapped(key string, since, turned int) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: at(since), Swapped: at(turned)}
}

// bears tolerates a key without limit.
func bears(key string) model.Toleration { return model.Toleration{Key: key, Operator: model.Exists} }

// bearsFor tolerates a key for the given seconds.
func bearsFor(key string, seconds int64) model.Toleration {
	return model.Toleration{Key: key, Operator: model.Exists, Seconds: seconds, Bounded: true}
}

func TestDeadline(t *testing.T) {
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
		{"a node without taints", model.Pod{}, nil, stays},
		{"without taints patience does not matter", model.Pod{Tolerations: tolerations{bearsFor("k", 9)}}, nil, stays},
		{"taints that drive nobody off", model.Pod{}, taints{{Key: "k", Effect: model.NoSchedule, Added: start}, {Key: "l", Effect: model.PreferNoSchedule}}, stays},
		{"one that does is among them", model.Pod{}, taints{{Key: "k", Effect: model.NoSchedule}, taint("l", 3), {Key: "m", Effect: model.PreferNoSchedule}}, 3},
		{"not borne", model.Pod{}, taints{taint("k", 5)}, 5},
		{"borne for ever", model.Pod{Tolerations: tolerations{bears("k")}}, taints{taint("k", 5)}, stays},
		{"borne for a while", model.Pod{Tolerations: tolerations{bearsFor("k", 300)}}, taints{taint("k", 5)}, 305},
		{"a bound of 0 is none at all", model.Pod{Tolerations: tolerations{bearsFor("k", 0)}}, taints{taint("k", 5)}, 5},
		{"nor is one below it", model.Pod{Tolerations: tolerations{bearsFor("k", -7)}}, taints{taint("k", 5)}, 5},
		{"without a bound the figure says nothing", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Exists, Seconds: 7}}}, taints{taint("k", 5)}, stays},
		{"a bound that nobody lives to see", model.Pod{Tolerations: tolerations{bearsFor("k", math.MaxInt64)}}, taints{taint("k", 5)}, stays},
		{"tolerated by a number that is greater", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Greater, Value: "3"}}}, taints{{Key: "k", Value: "4", Effect: model.NoExecute, Added: at(5)}}, stays},
		{"a number that is not", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Greater, Value: "3"}}}, taints{{Key: "k", Value: "3", Effect: model.NoExecute, Added: at(5)}}, 5},
		{"tolerated for a while by a number that is less", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Less, Value: "3", Seconds: 9, Bounded: true}}}, taints{{Key: "k", Value: "2", Effect: model.NoExecute, Added: at(5)}}, 14},
		{"an operator of a later API", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.UnknownOperator, Value: "x"}}}, taints{taint("k", 5)}, stays},
		{"swapped, and the one before was tolerated for ever", model.Pod{Tolerations: tolerations{bears(model.KeyNotReady), bearsFor(model.KeyUnreachable, 50)}}, taints{swapped(model.KeyUnreachable, 5, 60)}, 110},
		{"swapped the other way", model.Pod{Tolerations: tolerations{bears(model.KeyUnreachable), bearsFor(model.KeyNotReady, 50)}}, taints{swapped(model.KeyNotReady, 5, 60)}, 110},
		{"swapped, and everything was tolerated for ever but this", model.Pod{Tolerations: tolerations{bearsFor(model.KeyUnreachable, 50), bears("")}}, taints{swapped(model.KeyUnreachable, 5, 60)}, 110},
		{"swapped, and not tolerated", model.Pod{Tolerations: tolerations{bears(model.KeyNotReady)}}, taints{swapped(model.KeyUnreachable, 5, 60)}, 60},
		{"swapped, and the one before was tolerated for a while", model.Pod{Tolerations: tolerations{bearsFor(model.KeyNotReady, 300), bearsFor(model.KeyUnreachable, 50)}}, taints{swapped(model.KeyUnreachable, 5, 60)}, 55},
		{"swapped, and the first toleration of the one before is for a while", model.Pod{Tolerations: tolerations{bearsFor(model.KeyNotReady, 300), bears(model.KeyNotReady), bearsFor(model.KeyUnreachable, 50)}}, taints{swapped(model.KeyUnreachable, 5, 60)}, 55},
		{"swapped before the pod came", model.Pod{Created: at(70), Tolerations: tolerations{bears(model.KeyNotReady), bearsFor(model.KeyUnreachable, 50)}}, taints{swapped(model.KeyUnreachable, 5, 60)}, 120},
		{"for ever, but by an effect that there is not", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.InvalidOperator}}}, taints{taint("k", 5)}, 5},
		{"for ever, but another effect", model.Pod{Tolerations: tolerations{{Key: "k", Operator: model.Exists, Effect: model.NoSchedule}}}, taints{taint("k", 5)}, 5},
		{"everything is borne", model.Pod{Tolerations: tolerations{bears("")}}, taints{taint("k", 5), taint("l", 6)}, stays},
		{"one of two is not borne", model.Pod{Tolerations: tolerations{bears("k")}}, taints{taint("k", 5), taint("l", 6)}, 6},
		{"one of two is not borne, and came first", model.Pod{Tolerations: tolerations{bearsFor("k", 100)}}, taints{taint("k", 5), taint("l", 6)}, 6},
		{"the shorter of two", model.Pod{Tolerations: tolerations{bearsFor("k", 200), bearsFor("l", 100)}}, taints{taint("k", 0), taint("l", 0)}, 100},
		{"the one that ends first, though it is longer", model.Pod{Tolerations: tolerations{bearsFor("k", 100), bearsFor("l", 90)}}, taints{taint("k", 0), taint("l", 50)}, 100},
		{"for ever beside a while", model.Pod{Tolerations: tolerations{bears("k"), bearsFor("l", 100)}}, taints{taint("k", 0), taint("l", 0)}, 100},
		{"the first that is for the taint counts, though the next bears more", model.Pod{Tolerations: tolerations{bearsFor("k", 10), bears("k")}}, taints{taint("k", 0)}, 10},
		{"or less", model.Pod{Tolerations: tolerations{bears("k"), bearsFor("k", 10)}}, taints{taint("k", 0)}, stays},
		{"those for other taints are passed over", model.Pod{Tolerations: tolerations{bearsFor("l", 1), bearsFor("k", 10)}}, taints{taint("k", 0)}, 10},
		{"a pod that came later has its time too", model.Pod{Created: at(60), Tolerations: tolerations{bearsFor("k", 10)}}, taints{taint("k", 0)}, 70},
		{"nobody wrote down since when", model.Pod{Created: at(60), Tolerations: tolerations{bearsFor("k", 10)}}, taints{{Key: "k", Effect: model.NoExecute}}, 70},
		{"finished", model.Pod{Finished: true}, taints{taint("k", 0)}, stays},
		{"deleted already", model.Pod{Deleting: true}, taints{taint("k", 0)}, stays},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := evictions.Deadline(&c.pod, c.on)
			switch {
			case ok != (c.want != stays):
				t.Errorf("goes: %v", ok)
			case ok && !got.Equal(at(c.want)):
				t.Errorf("goes at %s instead of %s", got.Sub(start), time.Duration(c.want)*time.Second)
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

// bearable reports whether a pod may still exist at a second, by stepping through its life.
func bearable(p *model.Pod, taints []model.Taint, now int) bool {
	for _, taint := range taints {
		if taint.Effect != model.NoExecute {
			continue
		}
		met := int(taint.Added.Sub(start).Seconds())
		if !taint.Swapped.IsZero() && first(p, model.Opposite(taint.Key)) == math.MaxInt {
			met = max(met, int(taint.Swapped.Sub(start).Seconds()))
		}
		borne := firstFor(p, taint)
		if borne > 0 {
			met = max(met, int(p.Created.Sub(start).Seconds()))
		}
		if borne != math.MaxInt && now >= met+borne {
			return false
		}
	}
	return true
}

// first returns the seconds for which a pod tolerates a taint of the key.
func first(p *model.Pod, key string) int {
	return firstFor(p, model.Taint{Key: key, Effect: model.NoExecute})
}

func firstFor(p *model.Pod, taint model.Taint) int {
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

func TestDeadlineIsTheFirstSecondThatIsNotBorne(t *testing.T) {
	for i := range 20_000 {
		r := rand.New(rand.NewPCG(3, uint64(i)))
		p, taints := randomPod(r), randomTaints(r)
		want := 0
		for want < 60 && (p.Finished || p.Deleting || bearable(p, taints, want)) {
			want++
		}
		got, ok := evictions.Deadline(p, taints)
		if ok != (want < 60) || ok && !got.Equal(at(want)) {
			t.Fatalf("pod %d: %+v with %+v: goes at %s, %v instead of %d", i, p, taints, got.Sub(start), ok, want)
		}
	}
}

func BenchmarkDeadline(b *testing.B) {
	p := &model.Pod{Created: start, Tolerations: []model.Toleration{bearsFor(model.KeyNotReady, 300), bearsFor(model.KeyUnreachable, 300)}}
	taints := []model.Taint{{Key: model.KeyUnreachable, Effect: model.NoSchedule}, taint(model.KeyUnreachable, 5)}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := evictions.Deadline(p, taints); !ok {
			b.Fatal("stays")
		}
	}
}
