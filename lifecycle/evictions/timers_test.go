package evictions_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
)

func TestTimers_PastDeadlineIsDueAtOnce(t *testing.T) {
	timers := evictions.NewTimers()
	timers.Set("a", at(-5))
	if got := timers.Due(at(0)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("due: got %q, want a", got)
	}
	if got := timers.Due(at(0)); got != nil || timers.Len() != 0 {
		t.Errorf("second call: got %q and %d timers, want none", got, timers.Len())
	}
}

func TestTimers_SetMovesDeadlineBothWays(t *testing.T) {
	timers := evictions.NewTimers()
	for _, deadline := range []int{10, 10, 30, 20} {
		timers.Set("a", at(deadline))
	}
	timers.Set("b", at(60))
	timers.Set("b", at(5))
	if next, ok := timers.Next(); !ok || !next.Equal(at(5)) || timers.Len() != 2 {
		t.Errorf("next: got %v, %v of %d timers", next, ok, timers.Len())
	}
	for _, c := range []struct {
		at  int
		due []string
	}{{4, nil}, {5, []string{"b"}}, {19, nil}, {20, []string{"a"}}, {100, nil}} {
		if got := timers.Due(at(c.at)); !slices.Equal(got, c.due) {
			t.Errorf("due at %d s: got %q, want %q", c.at, got, c.due)
		}
	}
}

func TestTimers_CancelRemovesTimer(t *testing.T) {
	timers := evictions.NewTimers()
	timers.Set("a", at(10))
	timers.Set("b", at(10))
	if deadline, ok := timers.At("a"); !ok || !deadline.Equal(at(10)) {
		t.Errorf("timer a: got %v, %v", deadline, ok)
	}
	if !timers.Cancel("a") || timers.Cancel("a") {
		t.Error("Cancel did not return true once, then false")
	}
	if _, ok := timers.At("a"); ok {
		t.Error("a cancelled timer has a deadline")
	}
	if got := timers.Due(at(10)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("due: got %q, want b", got)
	}
	if timers.Cancel("b") {
		t.Error("Cancel returned true for a timer that Due has removed")
	}
	if _, ok := timers.Next(); ok {
		t.Error("Next returned a deadline without timers")
	}
}

func TestTimers_DueInOrderOfTimeAndUID(t *testing.T) {
	timers := evictions.NewTimers()
	for uid, deadline := range map[string]int{"d": 1, "c": 2, "b": 2, "a": 3} {
		timers.Set(uid, at(deadline))
	}
	if got, want := timers.Due(at(9)), []string{"d", "b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("due: got %q, want %q", got, want)
	}
}

func TestTimers_MatchReference(t *testing.T) {
	for i := range 1000 {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		timers, ref := evictions.NewTimers(), map[string]int{}
		for now := range 60 {
			uid, deadline := fmt.Sprint(r.IntN(8)), now+r.IntN(12)-3
			switch r.IntN(3) {
			case 0:
				timers.Set(uid, at(deadline))
				ref[uid] = deadline
			case 1:
				_, there := ref[uid]
				if timers.Cancel(uid) != there {
					t.Fatalf("timeline %d at %d: Cancel(%s) returned %v", i, now, uid, !there)
				}
				delete(ref, uid)
			case 2:
				if got, want := timers.Due(at(now)), due(ref, now); !slices.Equal(got, want) {
					t.Fatalf("timeline %d at %d: got due %q, want %q", i, now, got, want)
				}
			}
			if timers.Len() != len(ref) {
				t.Fatalf("timeline %d at %d: got %d timers, want %d", i, now, timers.Len(), len(ref))
			}
		}
	}
}

// due searches a map for the due pods and removes them.
func due(ref map[string]int, now int) (uids []string) {
	for _, uid := range slices.SortedFunc(maps.Keys(ref), func(a, b string) int {
		if ref[a] != ref[b] {
			return ref[a] - ref[b]
		}
		return int(a[0]) - int(b[0])
	}) {
		if ref[uid] <= now {
			uids = append(uids, uid)
		}
	}
	for _, uid := range uids {
		delete(ref, uid)
	}
	return uids
}
