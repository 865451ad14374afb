package timerqueue

import (
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

func at(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// reference is a map with a linear search: slow, and simple enough to be correct.
type reference map[int]time.Time

func (n reference) next() (key int, ok bool) {
	for k, t := range n {
		if !ok || t.Before(n[key]) || t.Equal(n[key]) && k < key {
			key, ok = k, true
		}
	}
	return key, ok
}

func TestQueue_MatchesReference(t *testing.T) {
	const steps, keys, times = 20_000, 60, 40
	random := rand.New(rand.NewPCG(1, 2))
	q, ref := New[int](), reference{}
	for step := range steps {
		key, now := random.IntN(keys), at(random.IntN(times))
		switch random.IntN(4) {
		case 0, 1:
			q.Set(key, now)
			ref[key] = now
		case 2:
			_, exists := ref[key]
			if q.Remove(key) != exists {
				t.Fatalf("step %d: Remove(%d) = %v", step, key, !exists)
			}
			delete(ref, key)
		case 3:
			want, ok := ref.next()
			ok = ok && !ref[want].After(now)
			if got, popped := q.Pop(now); popped != ok || ok && got != want {
				t.Fatalf("step %d: Pop = %d, %v, want %d, %v", step, got, popped, want, ok)
			}
			if ok {
				delete(ref, want)
			}
		}
		if q.Len() != len(ref) {
			t.Fatalf("step %d: %d keys, want %d", step, q.Len(), len(ref))
		}
		if want, ok := ref.next(); ok {
			if got, when, _ := q.Next(); got != want || !when.Equal(ref[want]) {
				t.Fatalf("step %d: Next = %d at %v, want %d at %v", step, got, when, want, ref[want])
			}
		}
		if when, ok := q.At(key); ok != (ref[key] != time.Time{}) || ok && !when.Equal(ref[key]) {
			t.Fatalf("step %d: %d is at %v", step, key, when)
		}
	}
}

func TestQueue_OrdersEqualTimesByKey(t *testing.T) {
	q := New[string]()
	for _, key := range []string{"b", "c", "a"} {
		q.Set(key, start)
	}
	for _, want := range []string{"a", "b", "c"} {
		if got, ok := q.Pop(start); !ok || got != want {
			t.Errorf("popped %q, %v, want %q", got, ok, want)
		}
	}
}

func TestQueue_PopsNothingEarly(t *testing.T) {
	q := New[string]()
	q.Set("a", at(1))
	if _, ok := q.Pop(at(1).Add(-time.Nanosecond)); ok {
		t.Error("popped a nanosecond too early")
	}
	if _, ok := q.Pop(at(1)); !ok {
		t.Error("not popped when due")
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
func TestQueue_HandlesTimesOutOfRange(t *testing.T) {
	q := New[string]()
	q.Set("end of days", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	q.Set("year one", time.Time{})
	if key, ok := q.Pop(start); !ok || key != "year one" {
		t.Errorf("got %q, %v first, want year one", key, ok)
	}
	if key, ok := q.Pop(start.AddDate(100, 0, 0)); ok {
		t.Errorf("%q is due after a hundred years", key)
	}
}
