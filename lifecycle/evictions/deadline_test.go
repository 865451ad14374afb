package evictions_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/facts"
)

var start = time.Unix(1_000_000, 0)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// taint drives off who does not bear it, since that second.
func taint(key string, since int) facts.Taint {
	return facts.Taint{Key: key, Effect: facts.NoExecute, Added: at(since)}
}

// swapped replaced another one at that second, and keeps the moment of that.
func swapped(key string, since, turned int) facts.Taint {
	return facts.Taint{Key: key, Effect: facts.NoExecute, Added: at(since), Swapped: at(turned)}
}

// bears tolerates a key for ever.
func bears(key string) facts.Toleration { return facts.Toleration{Key: key, Operator: facts.Exists} }

// bearsFor tolerates it so many seconds.
func bearsFor(key string, seconds int64) facts.Toleration {
	return facts.Toleration{Key: key, Operator: facts.Exists, Seconds: seconds, Bounded: true}
}

func TestDeadline(t *testing.T) {
	const stays = -1
	type (
		tolerations = []facts.Toleration
		taints      = []facts.Taint
	)
	for _, c := range []struct {
		name string
		pod  facts.Pod
		on   taints
		want int // seconds after the start
	}{
		{"a node without taints", facts.Pod{}, nil, stays},
		{"without taints patience does not matter", facts.Pod{Tolerations: tolerations{bearsFor("k", 9)}}, nil, stays},
		{"taints that drive nobody off", facts.Pod{}, taints{{Key: "k", Effect: facts.NoSchedule, Added: start}, {Key: "l", Effect: facts.PreferNoSchedule}}, stays},
		{"one that does is among them", facts.Pod{}, taints{{Key: "k", Effect: facts.NoSchedule}, taint("l", 3), {Key: "m", Effect: facts.PreferNoSchedule}}, 3},
		{"not borne", facts.Pod{}, taints{taint("k", 5)}, 5},
		{"borne for ever", facts.Pod{Tolerations: tolerations{bears("k")}}, taints{taint("k", 5)}, stays},
		{"borne for a while", facts.Pod{Tolerations: tolerations{bearsFor("k", 300)}}, taints{taint("k", 5)}, 305},
		{"a bound of 0 is none at all", facts.Pod{Tolerations: tolerations{bearsFor("k", 0)}}, taints{taint("k", 5)}, 5},
		{"nor is one below it", facts.Pod{Tolerations: tolerations{bearsFor("k", -7)}}, taints{taint("k", 5)}, 5},
		{"without a bound the figure says nothing", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.Exists, Seconds: 7}}}, taints{taint("k", 5)}, stays},
		{"a bound that nobody lives to see", facts.Pod{Tolerations: tolerations{bearsFor("k", math.MaxInt64)}}, taints{taint("k", 5)}, stays},
		{"tolerated by a number that is greater", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.Greater, Value: "3"}}}, taints{{Key: "k", Value: "4", Effect: facts.NoExecute, Added: at(5)}}, stays},
		{"a number that is not", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.Greater, Value: "3"}}}, taints{{Key: "k", Value: "3", Effect: facts.NoExecute, Added: at(5)}}, 5},
		{"tolerated for a while by a number that is less", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.Less, Value: "3", Seconds: 9, Bounded: true}}}, taints{{Key: "k", Value: "2", Effect: facts.NoExecute, Added: at(5)}}, 14},
		{"an operator of a later API", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.UnknownOperator, Value: "x"}}}, taints{taint("k", 5)}, stays},
		{"swapped, and the one before was tolerated for ever", facts.Pod{Tolerations: tolerations{bears(facts.KeyNotReady), bearsFor(facts.KeyUnreachable, 50)}}, taints{swapped(facts.KeyUnreachable, 5, 60)}, 110},
		{"swapped the other way", facts.Pod{Tolerations: tolerations{bears(facts.KeyUnreachable), bearsFor(facts.KeyNotReady, 50)}}, taints{swapped(facts.KeyNotReady, 5, 60)}, 110},
		{"swapped, and everything was tolerated for ever but this", facts.Pod{Tolerations: tolerations{bearsFor(facts.KeyUnreachable, 50), bears("")}}, taints{swapped(facts.KeyUnreachable, 5, 60)}, 110},
		{"swapped, and not tolerated", facts.Pod{Tolerations: tolerations{bears(facts.KeyNotReady)}}, taints{swapped(facts.KeyUnreachable, 5, 60)}, 60},
		{"swapped, and the one before was tolerated for a while", facts.Pod{Tolerations: tolerations{bearsFor(facts.KeyNotReady, 300), bearsFor(facts.KeyUnreachable, 50)}}, taints{swapped(facts.KeyUnreachable, 5, 60)}, 55},
		{"swapped, and the first toleration of the one before is for a while", facts.Pod{Tolerations: tolerations{bearsFor(facts.KeyNotReady, 300), bears(facts.KeyNotReady), bearsFor(facts.KeyUnreachable, 50)}}, taints{swapped(facts.KeyUnreachable, 5, 60)}, 55},
		{"swapped before the pod came", facts.Pod{Created: at(70), Tolerations: tolerations{bears(facts.KeyNotReady), bearsFor(facts.KeyUnreachable, 50)}}, taints{swapped(facts.KeyUnreachable, 5, 60)}, 120},
		{"for ever, but by an effect that there is not", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.InvalidOperator}}}, taints{taint("k", 5)}, 5},
		{"for ever, but another effect", facts.Pod{Tolerations: tolerations{{Key: "k", Operator: facts.Exists, Effect: facts.NoSchedule}}}, taints{taint("k", 5)}, 5},
		{"everything is borne", facts.Pod{Tolerations: tolerations{bears("")}}, taints{taint("k", 5), taint("l", 6)}, stays},
		{"one of two is not borne", facts.Pod{Tolerations: tolerations{bears("k")}}, taints{taint("k", 5), taint("l", 6)}, 6},
		{"one of two is not borne, and came first", facts.Pod{Tolerations: tolerations{bearsFor("k", 100)}}, taints{taint("k", 5), taint("l", 6)}, 6},
		{"the shorter of two", facts.Pod{Tolerations: tolerations{bearsFor("k", 200), bearsFor("l", 100)}}, taints{taint("k", 0), taint("l", 0)}, 100},
		{"the one that ends first, though it is longer", facts.Pod{Tolerations: tolerations{bearsFor("k", 100), bearsFor("l", 90)}}, taints{taint("k", 0), taint("l", 50)}, 100},
		{"for ever beside a while", facts.Pod{Tolerations: tolerations{bears("k"), bearsFor("l", 100)}}, taints{taint("k", 0), taint("l", 0)}, 100},
		{"the first that is for the taint counts, though the next bears more", facts.Pod{Tolerations: tolerations{bearsFor("k", 10), bears("k")}}, taints{taint("k", 0)}, 10},
		{"or less", facts.Pod{Tolerations: tolerations{bears("k"), bearsFor("k", 10)}}, taints{taint("k", 0)}, stays},
		{"those for other taints are passed over", facts.Pod{Tolerations: tolerations{bearsFor("l", 1), bearsFor("k", 10)}}, taints{taint("k", 0)}, 10},
		{"a pod that came later has its time too", facts.Pod{Created: at(60), Tolerations: tolerations{bearsFor("k", 10)}}, taints{taint("k", 0)}, 70},
		{"nobody wrote down since when", facts.Pod{Created: at(60), Tolerations: tolerations{bearsFor("k", 10)}}, taints{{Key: "k", Effect: facts.NoExecute}}, 70},
		{"finished", facts.Pod{Finished: true}, taints{taint("k", 0)}, stays},
		{"deleted already", facts.Pod{Deleting: true}, taints{taint("k", 0)}, stays},
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

func randomPod(r *rand.Rand) *facts.Pod {
	p := &facts.Pod{Created: at(r.IntN(20)), Finished: r.IntN(20) == 0, Deleting: r.IntN(20) == 0}
	for range r.IntN(4) {
		p.Tolerations = append(p.Tolerations, facts.Toleration{
			Key: []string{"a", "b", facts.KeyNotReady, facts.KeyUnreachable, ""}[r.IntN(5)], Operator: facts.Operator(r.IntN(6)), Effect: facts.Effect(r.IntN(4)),
			Seconds: int64(r.IntN(30) - 3), Bounded: r.IntN(3) > 0,
		})
	}
	return p
}

func randomTaints(r *rand.Rand) (taints []facts.Taint) {
	for _, key := range []string{"a", "b", facts.KeyNotReady, facts.KeyUnreachable} {
		if r.IntN(2) == 0 {
			continue
		}
		taint := facts.Taint{Key: key, Effect: facts.NoSchedule + facts.Effect(r.IntN(3)), Added: at(r.IntN(20))}
		if facts.Opposite(key) != "" && r.IntN(2) == 0 {
			taint.Swapped = taint.Added.Add(time.Duration(1+r.IntN(20)) * time.Second)
		}
		taints = append(taints, taint)
	}
	return taints
}

// bearable goes through a pod's life second by second: may it still be there?
func bearable(p *facts.Pod, taints []facts.Taint, now int) bool {
	for _, taint := range taints {
		if taint.Effect != facts.NoExecute {
			continue
		}
		met := int(taint.Added.Sub(start).Seconds())
		if !taint.Swapped.IsZero() && first(p, facts.Opposite(taint.Key)) == math.MaxInt {
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

// first is how many seconds a pod tolerates a taint of the key.
func first(p *facts.Pod, key string) int {
	return firstFor(p, facts.Taint{Key: key, Effect: facts.NoExecute})
}

func firstFor(p *facts.Pod, taint facts.Taint) int {
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
	p := &facts.Pod{Created: start, Tolerations: []facts.Toleration{bearsFor(facts.KeyNotReady, 300), bearsFor(facts.KeyUnreachable, 300)}}
	taints := []facts.Taint{{Key: facts.KeyUnreachable, Effect: facts.NoSchedule}, taint(facts.KeyUnreachable, 5)}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := evictions.Deadline(p, taints); !ok {
			b.Fatal("stays")
		}
	}
}
