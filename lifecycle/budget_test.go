package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudget_LimitsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const qps, burst, seconds = 20, 30, 60
		b := newBudget(qps, burst)
		begun := time.Now()
		var mu sync.Mutex
		var turns []time.Duration
		for range 2 { // the second time after a pause
			ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
			before := len(turns)
			var all sync.WaitGroup
			for i := range 50 { // all at the maximum rate
				all.Go(func() {
					for b.acquire(ctx, rank(i)%ranks) == nil {
						mu.Lock()
						turns = append(turns, time.Since(begun))
						mu.Unlock()
					}
				})
			}
			all.Wait()
			cancel()
			if got, want := len(turns)-before, burst+qps*seconds; got < want-1 || got > want {
				t.Errorf("got %d turns in %d s at %d/s and a burst of %d, want %d", got, seconds, qps, burst, want)
			}
			<-time.After(time.Minute)
		}
		for last := range turns {
			for first := range last { // of every window
				limit := burst + qps*(turns[last]-turns[first]).Seconds()
				if got := last - first; float64(got) > limit {
					t.Fatalf("%d turns from %s to %s, want at most %.1f", got, turns[first], turns[last], limit)
				}
			}
		}
	})
}

func TestBudget_NegativeRateIsNoBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(-1, 1)
		begun := time.Now()
		for i := range 10_000 {
			if err := b.acquire(t.Context(), rank(i)%ranks); err != nil {
				t.Fatal(err)
			}
			b.release()
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("10000 turns took %s", took)
		}
	})
}

func TestBudget_LimitsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 5)
		<-time.After(time.Hour)
		begun := time.Now()
		for i := range 7 {
			if err := b.acquire(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(max(0, i-4)) * time.Second; time.Since(begun) != want {
				t.Errorf("turn %d: got after %s, want %s", i, time.Since(begun), want)
			}
		}
	})
}

func TestBudget_GrantsByRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 1)
		_ = b.acquire(t.Context(), 0)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		wanted := []class{tidy, repair, protect, tidy, evict, protect, repair, evict}
		for i, c := range wanted {
			all.Go(func() {
				if b.acquire(t.Context(), rankOf(c, i%4 == 3)) == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, fmt.Sprintf("%s%d", c, i))
				}
			})
			synctest.Wait() // in sequence
		}
		all.Wait()
		if got, want := strings.Join(order, " "), "protect2 protect5 evict7 evict4 repair1 repair6 tidy3 tidy0"; got != want {
			t.Errorf("got order %s, want %s", got, want)
		}
	})
}

func TestBudget_CancelledRequestUsesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 1)
		_ = b.acquire(t.Context(), 0)
		begun := time.Now()
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		var got []time.Duration
		cancelled := 0
		var all sync.WaitGroup
		for range 200 {
			timeout := time.Duration(random.IntN(100))*time.Second + time.Millisecond
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := b.acquire(ctx, 3)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, context.DeadlineExceeded) {
					cancelled++
				} else if err == nil {
					got = append(got, time.Since(begun))
				}
			})
		}
		all.Wait()
		if len(got)+cancelled != 200 || cancelled == 0 {
			t.Fatalf("got %d turns and %d cancelled requests of 200", len(got), cancelled)
		}
		slices.Sort(got)
		for i, at := range got { // no second is unused while a request waits
			if want := time.Duration(i+1) * time.Second; at != want {
				t.Fatalf("turn %d: got after %s, want %s", i, at, want)
			}
		}
	})
}

func TestAcquireUnless_Urgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 1)
		_ = b.acquire(t.Context(), 0)
		urgent := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { close(urgent) })
		begun := time.Now()
		if acquired, err := b.acquireUnless(t.Context(), 3, urgent); acquired || err != nil || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("got %v, %v after %v, want no turn after 100ms", acquired, err, time.Since(begun))
		}
		if acquired, err := b.acquireUnless(t.Context(), 3, urgent); acquired || err != nil {
			t.Errorf("already urgent: got %v, %v, want no turn", acquired, err)
		}
		if err := b.acquire(t.Context(), 0); err != nil || time.Since(begun) != time.Second {
			t.Errorf("the turn was lost: got %v after %v", err, time.Since(begun))
		}
	})
}
