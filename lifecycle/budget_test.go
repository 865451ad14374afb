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

func TestTheBudgetKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const qps, burst, seconds = 20, 30, 60
		b := newBudget(qps, burst)
		begun := time.Now()
		var mu sync.Mutex
		var turns []time.Duration
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 50 { // all at the maximum rate
			all.Go(func() {
				for b.take(ctx, rank(i)%ranks) == nil {
					mu.Lock()
					turns = append(turns, time.Since(begun))
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if got, want := len(turns), burst+qps*seconds; got < want-1 || got > want {
			t.Errorf("%d turns in %d s at %d/s and a burst of %d, not %d", got, seconds, qps, burst, want)
		}
		for i := burst; i < len(turns); i++ { // no window exceeds rate and burst
			if gap := turns[i] - turns[i-burst]; gap < 0 {
				t.Fatalf("turn %d came before turn %d", i, i-burst)
			}
			if most := float64(burst) + qps*turns[i].Seconds(); float64(i) > most {
				t.Fatalf("after %s there were %d turns, more than %.1f", turns[i], i+1, most)
			}
		}
	})
}

func TestBudget_NegativeRateIsNoBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(-1, 1)
		begun := time.Now()
		for i := range 10_000 {
			if err := b.take(t.Context(), rank(i)%ranks); err != nil {
				t.Fatal(err)
			}
			b.putBack()
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("10000 turns took %s", took)
		}
	})
}

func TestSavingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 5)
		<-time.After(time.Hour)
		begun := time.Now()
		for i := range 7 {
			if err := b.take(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(max(0, i-4)) * time.Second; time.Since(begun) != want {
				t.Errorf("turn %d came after %s, not %s", i, time.Since(begun), want)
			}
		}
	})
}

func TestWhatProtectsGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 1)
		_ = b.take(t.Context(), 0)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		wanted := []class{tidy, repair, protect, tidy, evict, protect, repair, evict}
		for i, c := range wanted {
			all.Go(func() {
				if b.take(t.Context(), rankOf(c, i%4 == 3)) == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, fmt.Sprintf("%s%d", c, i))
				}
			})
			synctest.Wait() // in sequence
		}
		all.Wait()
		if got, want := strings.Join(order, " "), "protect2 protect5 evict7 evict4 repair1 repair6 tidy3 tidy0"; got != want {
			t.Errorf("the order is %s, not %s", got, want)
		}
	})
}

func TestWhoGivesUpLeavesTheOthersTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 1)
		_ = b.take(t.Context(), 0)
		begun := time.Now()
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		var got []time.Duration
		gaveUp := 0
		var all sync.WaitGroup
		for range 200 {
			patience := time.Duration(random.IntN(100))*time.Second + time.Millisecond
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				err := b.take(ctx, 3)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, context.DeadlineExceeded) {
					gaveUp++
				} else if err == nil {
					got = append(got, time.Since(begun))
				}
			})
		}
		all.Wait()
		if len(got)+gaveUp != 200 || gaveUp == 0 {
			t.Fatalf("%d got their turn, %d gave up", len(got), gaveUp)
		}
		slices.Sort(got)
		for i, at := range got { // no second is unused while a request waits
			if want := time.Duration(i+1) * time.Second; at != want {
				t.Fatalf("turn %d came after %s, not %s", i, at, want)
			}
		}
	})
}

func TestTakeUnless_Urgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 1)
		_ = b.take(t.Context(), 0)
		urgent := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { close(urgent) })
		begun := time.Now()
		if taken, err := b.takeUnless(t.Context(), 3, urgent); taken || err != nil || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("after %v: %v, %v", time.Since(begun), taken, err)
		}
		if taken, err := b.takeUnless(t.Context(), 3, urgent); taken || err != nil {
			t.Errorf("urgent already: %v, %v", taken, err)
		}
		if err := b.take(t.Context(), 0); err != nil || time.Since(begun) != time.Second {
			t.Errorf("the turn was lost: after %v: %v", time.Since(begun), err)
		}
	})
}
