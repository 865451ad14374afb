package timerqueue

import (
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

func at(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// naive is a map with a linear search: slow, and simple enough to be correct.
type naive map[int]time.Time

func (n naive) next() (key int, ok bool) {
	for k, t := range n {
		if !ok || t.Before(n[key]) || t.Equal(n[key]) && k < key {
			key, ok = k, true
		}
	}
	return key, ok
}

func TestQueueIsItsNaiveTwin(t *testing.T) {
	const steps, keys, moments = 20_000, 60, 40
	random := rand.New(rand.NewPCG(1, 2))
	q, twin := New[int](), naive{}
	for step := range steps {
		key, now := random.IntN(keys), at(random.IntN(moments))
		switch random.IntN(4) {
		case 0, 1:
			q.Set(key, now)
			twin[key] = now
		case 2:
			_, there := twin[key]
			if q.Remove(key) != there {
				t.Fatalf("step %d: removing %d reports %v", step, key, !there)
			}
			delete(twin, key)
		case 3:
			want, ok := twin.next()
			ok = ok && !twin[want].After(now)
			if got, popped := q.Pop(now); popped != ok || ok && got != want {
				t.Fatalf("step %d: popped %d, %v instead of %d, %v", step, got, popped, want, ok)
			}
			if ok {
				delete(twin, want)
			}
		}
		if q.Len() != len(twin) {
			t.Fatalf("step %d: %d keys instead of %d", step, q.Len(), len(twin))
		}
		if want, ok := twin.next(); ok {
			if got, when, _ := q.Next(); got != want || !when.Equal(twin[want]) {
				t.Fatalf("step %d: next is %d at %v instead of %d at %v", step, got, when, want, twin[want])
			}
		}
		if when, ok := q.At(key); ok != (twin[key] != time.Time{}) || ok && !when.Equal(twin[key]) {
			t.Fatalf("step %d: %d is at %v", step, key, when)
		}
	}
}

func TestEqualMomentsInOrderOfKeys(t *testing.T) {
	q := New[string]()
	for _, key := range []string{"b", "c", "a"} {
		q.Set(key, start)
	}
	for _, want := range []string{"a", "b", "c"} {
		if got, ok := q.Pop(start); !ok || got != want {
			t.Errorf("popped %q, %v instead of %q", got, ok, want)
		}
	}
}

func TestNothingIsDueBeforeItsMoment(t *testing.T) {
	q := New[string]()
	q.Set("a", at(1))
	if _, ok := q.Pop(at(1).Add(-time.Nanosecond)); ok {
		t.Error("popped a nanosecond too early")
	}
	if _, ok := q.Pop(at(1)); !ok {
		t.Error("not popped at its moment")
	}
}

func BenchmarkMove(b *testing.B) {
	const keys = 150_000
	q := New[int]()
	for i := range keys {
		q.Set(i, at(i))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		q.Set(n%keys, at(n))
		n += 7919
	}
}

// A time read from input may be beyond nanoseconds since 1970. Such a time is far in the future,
// and not in the past.
func TestMomentsBeyondCounting(t *testing.T) {
	q := New[string]()
	q.Set("end of days", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	q.Set("year one", time.Time{})
	if key, ok := q.Pop(start); !ok || key != "year one" {
		t.Errorf("first comes %q, %v", key, ok)
	}
	if key, ok := q.Pop(start.AddDate(100, 0, 0)); ok {
		t.Errorf("%q is due after a hundred years", key)
	}
}
