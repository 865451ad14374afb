package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
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
