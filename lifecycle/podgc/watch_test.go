package podgc

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

var (
	start   = time.Unix(1_700_000_000, 0)
	errBusy = errors.New("busy")
)

const kept = 100 * time.Second

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// evicted returns a pod created and marked at these seconds.
func evicted(uid string, made, marked int) *model.Pod {
	when := at(marked)
	return &model.Pod{UID: uid, Name: "p", Created: at(made), Finished: true, Evicted: &when}
}

func with(p *model.Pod, change func(*model.Pod)) *model.Pod {
	change(p)
	return p
}

func TestWhoIsDueAndWhen(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name string
		kept time.Duration
		pod  *model.Pod
		want int
	}{
		{"evicted", kept, evicted("u", 0, 50), 150},
		{"evicted long ago", kept, evicted("u", -900, -700), 0},
		{"in the second in which it was created", kept, with(evicted("u", 50, 50), func(p *model.Pod) { p.Created = at(51).Add(-1) }), 150},
		{"by a clock that is behind", kept, evicted("u", 20, -700), 120},
		{"by a clock that is ahead", kept, evicted("u", 0, 900), 1000},
		{"for ever", 0, evicted("u", -900, -700), never},
		{"without the mark", kept, &model.Pod{UID: "u", Created: at(-900), Finished: true}, never},
		{"deleted already", kept, with(evicted("u", -900, -700), func(p *model.Pod) { p.Deleting = true }), never},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(c.kept)
			w.Pod(c.pod)
			next, ok := w.Next()
			if ok != (c.want != never) || ok && later(next, start) != at(c.want) {
				t.Fatalf("due at %v, %v", next.Sub(start), ok)
			}
			if c.want > 0 && len(w.Due(at(c.want).Add(-1))) != 0 {
				t.Error("due too early")
			}
			if got := w.Due(at(max(c.want, 0))); len(got) != 0 && c.want == never || len(got) != 1 && c.want != never {
				t.Errorf("due: %v", got)
			}
		})
	}
}

func TestAPodIsToldOnceUntilItIsFinished(t *testing.T) {
	w := New(kept)
	w.Pod(evicted("u", 0, 0))
	if got := w.Due(at(100)); len(got) != 1 || !w.Wanted("u", at(100)) {
		t.Fatalf("due: %v", got)
	}
	w.Pod(evicted("u", 0, 0)) // delivered once more
	if got := w.Due(at(900)); len(got) != 0 {
		t.Fatalf("told twice: %v", got)
	}
	now := 900
	for _, pause := range []int{10, 20, 40, 80, 160, 320, 600, 600} {
		w.Finished("u", errBusy, at(now))
		if got := w.Due(at(now + pause - 1)); len(got) != 0 {
			t.Fatalf("told again before %d s are over", pause)
		}
		w.Pod(evicted("u", 0, 0)) // it changes no deadline
		if now += pause; len(w.Due(at(now))) != 1 {
			t.Fatalf("not told again after %d s", pause)
		}
	}
	w.Finished("u", nil, at(now))
	if len(w.Due(at(now+599))) != 0 || len(w.Due(at(now+600))) != 1 {
		t.Error("a pod that outlasts its delete is not told again after ten minutes")
	}
	w.Finished("u", errBusy, at(now+600))
	if len(w.Due(at(now+610))) != 1 {
		t.Error("what succeeded once is as urgent as ever when it fails")
	}
}

func TestWhatIsCalledOff(t *testing.T) {
	for name, off := range map[string]func(w *Watch){
		"gone":           func(w *Watch) { w.Gone("u") },
		"deleted":        func(w *Watch) { w.Pod(with(evicted("u", 0, 0), func(p *model.Pod) { p.Deleting = true })) },
		"without a mark": func(w *Watch) { w.Pod(&model.Pod{UID: "u", Finished: true}) },
	} {
		w := New(kept)
		w.Pod(evicted("u", 0, 0))
		off(w)
		if _, ok := w.Next(); ok || w.Len() != 0 || w.Wanted("u", at(900)) {
			t.Errorf("%s: it is waited for", name)
		}
		w.Pod(evicted("u", 0, 0))
		w.Due(at(100))
		off(w)
		if w.Wanted("u", at(100)) || len(w.Due(at(900))) != 0 {
			t.Errorf("%s: it is wanted after it was told", name)
		}
		w.Finished("u", errBusy, at(900))
		w.Finished("u", errBusy, at(900))
		if _, ok := w.Next(); ok || w.Len() != 0 {
			t.Errorf("%s: it is remembered", name)
		}
	}
}

func TestAMarkThatIsSetAnewCountsFromThen(t *testing.T) {
	w := New(kept)
	w.Pod(evicted("u", 0, 0))
	w.Pod(evicted("u", 0, 60))
	if next, _ := w.Next(); !next.Equal(at(160)) {
		t.Errorf("due at %v", next.Sub(start))
	}
	w.Pod(evicted("u", 0, 20))
	if next, _ := w.Next(); !next.Equal(at(120)) {
		t.Errorf("due at %v", next.Sub(start))
	}
}

// naive is the reference model: it checks all pods every time.
type naive struct {
	pods map[string]*model.Pod
	told map[string]bool
	from map[string]time.Time
	runs map[string]int // successive failures
}

func (v *naive) due(now time.Time) (uids []string) {
	moment := func(uid string) time.Time {
		p := v.pods[uid]
		all := []time.Time{p.Evicted.Add(kept), p.Created.Add(kept), v.from[uid]}
		return slices.MaxFunc(all, time.Time.Compare)
	}
	for uid, p := range v.pods {
		if p.Evicted != nil && !p.Deleting && !v.told[uid] && !moment(uid).After(now) {
			uids = append(uids, uid)
		}
	}
	slices.SortFunc(uids, func(a, b string) int {
		if c := moment(a).Compare(moment(b)); c != 0 {
			return c
		}
		return int(a[0]) - int(b[0])
	})
	for _, uid := range uids {
		v.told[uid] = true
	}
	return uids
}

func (v *naive) finished(uid string, err error, now time.Time) {
	if delete(v.told, uid); err == nil {
		v.runs[uid] = 0
		v.from[uid] = now.Add(10 * time.Minute)
		return
	}
	pause := 10 * time.Second
	for range v.runs[uid] {
		pause = min(2*pause, 10*time.Minute)
	}
	v.runs[uid]++
	v.from[uid] = now.Add(pause)
}

// forget removes all state of an obsolete pod.
func (v *naive) forget(uid string) {
	if p := v.pods[uid]; !v.told[uid] && (p == nil || p.Evicted == nil || p.Deleting) {
		delete(v.from, uid)
		delete(v.runs, uid)
	}
}

func TestWatchIsItsNaiveTwin(t *testing.T) {
	told := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 11))
		w, twin := New(kept), &naive{map[string]*model.Pod{}, map[string]bool{}, map[string]time.Time{}, map[string]int{}}
		now := 0
		for step := range 120 {
			now += r.IntN(40)
			happens(r, w, twin, now)
			var got []string
			if next, ok := w.Next(); ok && !next.After(at(now)) { // a caller that waits for Next misses nothing
				for _, p := range w.Due(at(now)) {
					got = append(got, p.UID)
				}
			}
			if want := twin.due(at(now)); !slices.Equal(got, want) {
				t.Fatalf("timeline %d, step %d: due %v, not %v", seed, step, got, want)
			}
			told += len(got)
		}
	}
	if told < 5000 {
		t.Errorf("only %d pods were told: they show nothing", told)
	}
}

func happens(r *rand.Rand, w *Watch, twin *naive, now int) {
	uid := string(rune('a' + r.IntN(5)))
	switch r.IntN(6) {
	case 0, 1, 2:
		p := evicted(uid, now-r.IntN(300), now-r.IntN(300)+20)
		if p.Deleting = r.IntN(6) == 0; r.IntN(6) == 0 {
			p.Evicted = nil
		}
		w.Pod(p)
		twin.pods[uid] = p
		twin.forget(uid)
	case 3:
		if r.IntN(3) == 0 {
			w.Gone(uid)
			delete(twin.pods, uid)
			twin.forget(uid)
		}
	default:
		for _, uid := range slices.Sorted(maps.Keys(twin.told)) {
			var err error
			if r.IntN(3) > 0 {
				err = fmt.Errorf("%w: %d", errBusy, now)
			}
			w.Finished(uid, err, at(now))
			twin.finished(uid, err, at(now))
			twin.forget(uid)
		}
	}
}
