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

const ttl = 100 * time.Second

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// evicted returns a pod created and marked at these seconds.
func evicted(uid string, created, marked int) *model.Pod {
	when := at(marked)
	return &model.Pod{UID: uid, Name: "p", Created: at(created), Finished: true, Evicted: &when}
}

func with(p *model.Pod, change func(*model.Pod)) *model.Pod {
	change(p)
	return p
}

func TestDue_AfterTTL(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name string
		ttl  time.Duration
		pod  *model.Pod
		want int
	}{
		{"evicted", ttl, evicted("u", 0, 50), 150},
		{"evicted long ago", ttl, evicted("u", -900, -700), 0},
		{"mark in the second of creation", ttl, with(evicted("u", 50, 50), func(p *model.Pod) { p.Created = at(51).Add(-1) }), 150},
		{"mark by a slow clock", ttl, evicted("u", 20, -700), 120},
		{"mark by a fast clock", ttl, evicted("u", 0, 900), 1000},
		{"TTL 0", 0, evicted("u", -900, -700), never},
		{"no mark", ttl, &model.Pod{UID: "u", Created: at(-900), Finished: true}, never},
		{"already deleted", ttl, with(evicted("u", -900, -700), func(p *model.Pod) { p.Deleting = true }), never},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(c.ttl)
			w.Pod(c.pod)
			next, ok := w.Next()
			if ok != (c.want != never) || ok && later(next, start) != at(c.want) {
				t.Fatalf("due at %v, %v, want %d s", next.Sub(start), ok, c.want)
			}
			if c.want > 0 && len(w.Due(at(c.want).Add(-1))) != 0 {
				t.Error("due before its time")
			}
			if got := w.Due(at(max(c.want, 0))); len(got) != 0 && c.want == never || len(got) != 1 && c.want != never {
				t.Errorf("due: got %v, want second %d", got, c.want)
			}
		})
	}
}

func TestDue_ReturnsPodOnceUntilFinished(t *testing.T) {
	w := New(ttl)
	w.Pod(evicted("u", 0, 0))
	if got := w.Due(at(100)); len(got) != 1 || !w.Wanted("u", at(100)) {
		t.Fatalf("due: got %v, want one pod", got)
	}
	w.Pod(evicted("u", 0, 0)) // a duplicate event
	if got := w.Due(at(900)); len(got) != 0 {
		t.Fatalf("returned twice: %v", got)
	}
	now := 900
	for _, pause := range []int{10, 20, 40, 80, 160, 320, 600, 600} {
		w.Finished("u", errBusy, at(now))
		if got := w.Due(at(now + pause - 1)); len(got) != 0 {
			t.Fatalf("returned again before %d s", pause)
		}
		w.Pod(evicted("u", 0, 0)) // no change of the deadline
		if now += pause; len(w.Due(at(now))) != 1 {
			t.Fatalf("not returned again after %d s", pause)
		}
	}
	w.Finished("u", nil, at(now))
	if len(w.Due(at(now+599))) != 0 || len(w.Due(at(now+600))) != 1 {
		t.Error("an undeleted pod was not returned again after ten minutes")
	}
	w.Finished("u", errBusy, at(now+600))
	if len(w.Due(at(now+610))) != 1 {
		t.Error("the success did not reset the backoff")
	}
}

func TestWatch_ForgetsCancelledPods(t *testing.T) {
	for name, off := range map[string]func(w *Watch){
		"gone":         func(w *Watch) { w.Gone("u") },
		"deleted":      func(w *Watch) { w.Pod(with(evicted("u", 0, 0), func(p *model.Pod) { p.Deleting = true })) },
		"mark removed": func(w *Watch) { w.Pod(&model.Pod{UID: "u", Finished: true}) },
	} {
		w := New(ttl)
		w.Pod(evicted("u", 0, 0))
		off(w)
		if _, ok := w.Next(); ok || w.Len() != 0 || w.Wanted("u", at(900)) {
			t.Errorf("%s: a deadline is left", name)
		}
		w.Pod(evicted("u", 0, 0))
		w.Due(at(100))
		off(w)
		if w.Wanted("u", at(100)) || len(w.Due(at(900))) != 0 {
			t.Errorf("%s: still wanted after Due returned it", name)
		}
		w.Finished("u", errBusy, at(900))
		w.Finished("u", errBusy, at(900))
		if _, ok := w.Next(); ok || w.Len() != 0 {
			t.Errorf("%s: state is left", name)
		}
	}
}

func TestPod_NewMarkMovesDeadline(t *testing.T) {
	w := New(ttl)
	w.Pod(evicted("u", 0, 0))
	w.Pod(evicted("u", 0, 60))
	if next, _ := w.Next(); !next.Equal(at(160)) {
		t.Errorf("due %v after the start", next.Sub(start))
	}
	w.Pod(evicted("u", 0, 20))
	if next, _ := w.Next(); !next.Equal(at(120)) {
		t.Errorf("due %v after the start", next.Sub(start))
	}
}

// reference is a model of Watch that checks all pods every time.
type reference struct {
	pods      map[string]*model.Pod
	returned  map[string]bool
	notBefore map[string]time.Time
	failures  map[string]int // successive failures
}

func (v *reference) due(now time.Time) (uids []string) {
	dueAt := func(uid string) time.Time {
		p := v.pods[uid]
		all := []time.Time{p.Evicted.Add(ttl), p.Created.Add(ttl), v.notBefore[uid]}
		return slices.MaxFunc(all, time.Time.Compare)
	}
	for uid, p := range v.pods {
		if p.Evicted != nil && !p.Deleting && !v.returned[uid] && !dueAt(uid).After(now) {
			uids = append(uids, uid)
		}
	}
	slices.SortFunc(uids, func(a, b string) int {
		if c := dueAt(a).Compare(dueAt(b)); c != 0 {
			return c
		}
		return int(a[0]) - int(b[0])
	})
	for _, uid := range uids {
		v.returned[uid] = true
	}
	return uids
}

func (v *reference) finished(uid string, err error, now time.Time) {
	if delete(v.returned, uid); err == nil {
		v.failures[uid] = 0
		v.notBefore[uid] = now.Add(10 * time.Minute)
		return
	}
	backoff := 10 * time.Second
	for range v.failures[uid] {
		backoff = min(2*backoff, 10*time.Minute)
	}
	v.failures[uid]++
	v.notBefore[uid] = now.Add(backoff)
}

// forget removes all state of an obsolete pod.
func (v *reference) forget(uid string) {
	if p := v.pods[uid]; !v.returned[uid] && (p == nil || p.Evicted == nil || p.Deleting) {
		delete(v.notBefore, uid)
		delete(v.failures, uid)
	}
}

func TestWatch_MatchesReference(t *testing.T) {
	returned := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 11))
		w, ref := New(ttl), &reference{map[string]*model.Pod{}, map[string]bool{}, map[string]time.Time{}, map[string]int{}}
		now := 0
		for step := range 120 {
			now += r.IntN(40)
			randomEvent(r, w, ref, now)
			var got []string
			if next, ok := w.Next(); ok && !next.After(at(now)) { // a caller sleeps until Next
				for _, p := range w.Due(at(now)) {
					got = append(got, p.UID)
				}
			}
			if want := ref.due(at(now)); !slices.Equal(got, want) {
				t.Fatalf("timeline %d, step %d: got due %v, want %v", seed, step, got, want)
			}
			returned += len(got)
		}
	}
	if returned < 5000 {
		t.Errorf("only %d pods were returned, want at least 5000", returned)
	}
}

func randomEvent(r *rand.Rand, w *Watch, ref *reference, now int) {
	uid := string(rune('a' + r.IntN(5)))
	switch r.IntN(6) {
	case 0, 1, 2:
		p := evicted(uid, now-r.IntN(300), now-r.IntN(300)+20)
		if p.Deleting = r.IntN(6) == 0; r.IntN(6) == 0 {
			p.Evicted = nil
		}
		w.Pod(p)
		ref.pods[uid] = p
		ref.forget(uid)
	case 3:
		if r.IntN(3) == 0 {
			w.Gone(uid)
			delete(ref.pods, uid)
			ref.forget(uid)
		}
	default:
		for _, uid := range slices.Sorted(maps.Keys(ref.returned)) {
			var err error
			if r.IntN(3) > 0 {
				err = fmt.Errorf("%w: %d", errBusy, now)
			}
			w.Finished(uid, err, at(now))
			ref.finished(uid, err, at(now))
			ref.forget(uid)
		}
	}
}
