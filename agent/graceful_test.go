package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/restraint"
	"plimsoll.dev/plimsoll/signal"
)

// The pod is cut short at 70 s, given up at 72 s, and gone at 75 s.
func TestTheEndOfAPodThatIsNotWaitedForAnyMoreIsTold(t *testing.T) {
	w := live(t, 95*time.Second, false, []eviction.Threshold{hard(), soft()}, func(w *world) {
		w.ending, w.hurries = time.Hour, 5*time.Second
		w.add("slow", 800*mib).FromAPI = true
		other := w.add("other", 10*mib)
		other.rate, other.since, other.until, other.then = 60*mib, time.Now().Add(68*time.Second), time.Now().Add(70*time.Second+time.Millisecond), 10*mib
	})
	want := []Verb{Terminating, Hurried, Settled, Failed, Terminated}
	if got := w.verbs(); !slices.Equal(got, want) || len(w.pods) != 1 {
		t.Fatalf("told %v, want %v; %d pods are left", got, want, len(w.pods))
	}
	if why := w.failures(); len(why) == 0 || !strings.Contains(why[0], "has not ended yet") {
		t.Errorf("failed: %q", why)
	}
}

// unanswered is a pod that is asked for politely, which nobody acts upon.
func unanswered(p *worldPod) {
	p.FromAPI, p.polite = true, true
	p.asked = func(ctx context.Context, change Changes) (Killed, error) {
		select {
		case <-time.After(6 * time.Minute):
			return Killed{Withdrawn: true}, errors.New("nobody has evicted it")
		case <-change.Withdraw:
			return Killed{Withdrawn: true}, nil
		case <-ctx.Done():
		}
		return Killed{}, ctx.Err()
	}
}

// Whoever carries soft evictions out is away. After that memory runs short: the hog,
// which nobody has touched, goes, and all that restrains evictions is left.
func TestAPodThatWasAskedForInVainCanBeKilled(t *testing.T) {
	p := restraint.Policy{PerHour: 1, OwnerBackOff: 10 * time.Minute}
	w := restrained(t, 24*time.Minute, p, []eviction.Threshold{hard(), soft()}, func(w *world) {
		hog := w.add("hog", 800*mib)
		unanswered(hog)
		hog.Owner = "o"
		hog.rate, hog.since, hog.until, hog.then = -5*mib, time.Now().Add(22*time.Minute), time.Now().Add(23*time.Minute), 950*mib
		innocent := w.add("innocent", 10*mib)
		innocent.MemoryRequest = signal.Quantity{Value: 20 * mib}
		unanswered(innocent)
	})
	want := []string{"default/hog", "default/hog", "default/hog", "default/innocent", "default/hog"}
	if got := w.evicted(); !slices.Equal(got, want) || w.count(Evicted) != 1 || w.count(Withdrawn) != 4 {
		t.Errorf("evicted %v, want %v; told %v", got, want, w.verbs())
	}
	for _, why := range w.failures() {
		if strings.Contains(why, "killed") {
			t.Errorf("nobody was killed: %s", why)
		}
	}
}

// One that takes longer to be given up than failures are remembered for is asked
// for no more often.
func TestAPodIsNotAskedForInVainForEver(t *testing.T) {
	k, p, at := tries{}, &signal.Pod{UID: "p"}, time.Unix(0, 0)
	for range mostKills {
		if k.exhausted(p, at) {
			t.Fatalf("after %d", k["p"].n)
		}
		at = at.Add(2 * killsForget)
		k.count(p, at)
	}
	if !k.exhausted(p, at) || k.exhausted(p, at.Add(killsForget)) || len(k) != 0 {
		t.Errorf("left: %v", k)
	}
}

// Soft evictions that were withdrawn take nothing from the kills that were.
func TestAWithdrawnEvictionLeavesKillsCounted(t *testing.T) {
	pod := &signal.Pod{UID: "p"}
	a := New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &world{}})
	a.kills.count(pod, time.Now())
	a.graceful = newRelease(&eviction.Eviction{Pod: pod}, time.Now())
	a.endTermination(termination{killed: Killed{Withdrawn: true}})
	if got := a.kills["p"].n; got != 1 {
		t.Errorf("%d kills counted", got)
	}
	a.graceful = newRelease(&eviction.Eviction{Pod: pod}, time.Now())
	a.endTermination(termination{err: errRefused})
	if got := a.kills["p"].n; got != 2 || len(a.vain) != 0 {
		t.Errorf("%d kills counted, %d asked for in vain", got, len(a.vain))
	}
}

// failures are the errors of the decisions that say that nobody could be evicted.
func (w *world) failures() (all []string) {
	for _, d := range w.told {
		if d.Decision == Failed {
			for _, f := range d.Failed {
				all = append(all, f.Reason)
			}
		}
	}
	return all
}
