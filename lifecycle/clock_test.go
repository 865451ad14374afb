package lifecycle

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
)

// wall is a clock that can be set.
type wall struct{ off atomic.Int64 }

func (w *wall) set(by time.Duration) { w.off.Add(int64(by)) }

func (w *wall) clock() *clock {
	k := newClock()
	k.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(w.off.Load())) }
	k.now, k.was = k.wall(), k.wall()
	return k
}

func TestClock_FollowsWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wall{}
		k := w.clock()
		begun, last := time.Now(), time.Time{}
		for _, step := range []struct {
			set, passes time.Duration
			want        time.Duration // since the start
			missed      time.Duration
			setBack     time.Duration
		}{
			{0, 5 * time.Second, 5 * time.Second, 0, 0},
			{time.Hour, 5 * time.Second, time.Hour + 10*time.Second, time.Hour, 0},
			{0, 5 * time.Second, time.Hour + 15*time.Second, 0, 0},
			{300 * time.Millisecond, 700 * time.Millisecond, time.Hour + 16*time.Second, 0, 0}, // below a leap
			{-900 * time.Millisecond, time.Second, time.Hour + 17*time.Second, 0, 0},
			{0, time.Minute, time.Hour + 77*time.Second, 40 * time.Second, 0}, // the process was stopped
			{-4 * time.Second, 5 * time.Second, time.Hour + 82*time.Second, 0, 4900 * time.Millisecond},
			{4900 * time.Millisecond, 5 * time.Second, time.Hour + 87*time.Second, 0, 0},
		} {
			<-time.After(step.passes)
			w.set(step.set)
			now, missed := k.advance()
			if now.Sub(begun) != step.want || missed != step.missed || now.Before(last) {
				t.Fatalf("after %s: got %s with %s missed, want %s and %s", time.Since(begun), now.Sub(begun), missed, step.want, step.missed)
			}
			if got := k.setBack(); got != step.setBack {
				t.Errorf("after %s: set back by %s, want %s", time.Since(begun), got, step.setBack)
			}
			last = now
		}
		if <-time.After(time.Second); k.until(last.Add(time.Minute)) != 59*time.Second {
			t.Errorf("got %s left, want 59s", k.until(last.Add(time.Minute)))
		}
	})
}

// TestClock_ConvertsArrivals checks that age and order of arrivals are unchanged, even if the wall
// clock was set in between.
func TestClock_ConvertsArrivals(t *testing.T) {
	for _, c := range []struct {
		name     string
		set      time.Duration // after 5 s, 2 s of them since the clock was read
		ago      time.Duration
		want     time.Duration // since the beginning
		wantNext time.Duration // of one right after, without another reading of the clock
	}{
		{"clock not set", 0, time.Second, 4 * time.Second, 5 * time.Second},
		{"before the last reading", 0, 3 * time.Second, 3 * time.Second, 5 * time.Second},
		{"after a leap", time.Hour, time.Second, time.Hour + 4*time.Second, time.Hour + 5*time.Second},
		{"clock set back", -time.Hour, time.Second, 4 * time.Second, 5 * time.Second},
		{"clock set back, recent arrival", -time.Hour, 100 * time.Millisecond, 4900 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wall{}
				k, begun := w.clock(), time.Now()
				<-time.After(3 * time.Second)
				k.advance()
				<-time.After(2 * time.Second)
				arrival := time.Now().Add(-c.ago)
				w.set(c.set)
				k.advance()
				if got := k.of(arrival).Sub(begun); got != c.want {
					t.Errorf("arrival %s ago: got %s, want %s", c.ago, got, c.want)
				}
				if got := k.of(time.Now().Add(time.Second)).Sub(begun); got != c.wantNext {
					t.Errorf("next arrival: got %s, want %s", got, c.wantNext)
				}
			})
		})
	}
}

// TestController_ToleratesClockChanges checks that only dead nodes are lost, somewhat later
// than usual.
func TestController_ToleratesClockChanges(t *testing.T) {
	for name, c := range map[string]struct {
		by       time.Duration
		from, to time.Duration // time until a dead node is Unknown
		live     bool
	}{
		"forward":                     {10 * time.Minute, 65 * time.Second, 80 * time.Second, true},
		"forward, without live reads": {10 * time.Minute, 65 * time.Second, 80 * time.Second, false},
		"back by little":              {-900 * time.Millisecond, 65 * time.Second, 72 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.wall, r.policy.Confirmation.LiveReads = &wall{}, c.live
				for _, name := range []string{"a", "b", "c", "d"} {
					r.node(name)
				}
				r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c", "d")
				r.start()
				r.until(15 * time.Second)
				r.renew(corev1.NamespaceNodeLease, "a") // for the last time
				r.until(27 * time.Second)
				r.wall.set(c.by)
				r.pod("b", "web") // so that the clock is read before the first renewal
				r.until(c.from - time.Second)
				if got := r.lines("mark-unknown", "taint", "evict", "mark-not-ready"); got != "" {
					t.Errorf("before %s:\n%s", c.from, got)
				}
				r.until(c.to)
				if got := conditionOf(r.live("a"), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
					t.Errorf("after %s: Ready of the dead node is %s, want Unknown", c.to, got)
				}
				r.until(5 * time.Minute)
				for _, name := range []string{"b", "c", "d"} {
					if strings.Contains(r.lines("mark-unknown", "taint"), " "+name+" ") {
						t.Errorf("live node %s was declared lost", name)
					}
				}
			})
		})
	}
}

// TestController_EndsOnClockSetBack checks that a controller releases its leadership and ends if
// the wall clock is set back, and that the next one loses the dead node alone.
func TestController_EndsOnClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.wall, r.settings.Election.Enabled = &wall{}, true
		for _, name := range []string{"a", "b", "c", "d"} {
			r.node(name)
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c", "d")
		r.start()
		r.until(15 * time.Second)
		r.renew(corev1.NamespaceNodeLease, "a") // for the last time
		r.until(30 * time.Second)
		r.wall.set(-10 * time.Minute)
		r.until(45 * time.Second)
		if r.stop(); !errors.Is(r.ended, ErrSetBack) {
			t.Errorf("the controller ended with %v, want %v", r.ended, ErrSetBack)
		}
		r.start()
		r.until(3 * time.Minute)
		for _, name := range []string{"a", "b", "c", "d"} {
			want := corev1.ConditionTrue
			if name == "a" {
				want = corev1.ConditionUnknown
			}
			if got := conditionOf(r.live(name), corev1.NodeReady).Status; got != want {
				t.Errorf("node %s: Ready is %s, want %s", name, got, want)
			}
		}
	})
}

// suspendedFor returns the time of a machine that was suspended for some seconds: the wall clock
// counted them, the monotonic clock did not. Only the bits of a [time.Time] can have that.
func suspendedFor(t *testing.T, before time.Time, seconds int) time.Time {
	t.Helper()
	now := before
	*(*uint64)(unsafe.Pointer(&now)) += uint64(seconds) << 30
	if wall := now.Round(0).Sub(before.Round(0)); wall != time.Duration(seconds)*time.Second || now.Sub(before) != 0 {
		t.Fatalf("the wall clock is %s ahead and the monotonic clock %s, want %d s and 0", wall, now.Sub(before), seconds)
	}
	return now
}

// TestLock_ExpiresDuringSuspend covers a suspended machine. It has not counted the time, and
// another replica may lead by now. A synctest bubble has no monotonic clock.
func TestLock_ExpiresDuringSuspend(t *testing.T) {
	now := time.Now()
	l := &lock{leaseDuration: 15 * time.Second, renewed: now.Add(-10 * time.Second)}
	if !l.holds(now) {
		t.Error("the lease was lost before 15 s")
	}
	if l.holds(suspendedFor(t, now, 6)) {
		t.Error("the lease was held beyond its duration")
	}
}
