package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// rankedOutcome is the outcome of an eviction of the pod of that name. Each pod uses 10Mi less than the
// one before it, so that they are ranked in this order.
func rankedOutcome(victim string, pods ...*signals.Pod) *Outcome {
	o := &Outcome{Need: eviction.Need{Shortage: 500 * mib, Least: 25 * mib}, Verdict: eviction.Verdict{Target: &eviction.Threshold{Signal: signals.MemoryAvailable}}}
	var candidates []signals.Candidate
	for i, p := range pods {
		p.Namespace, p.UID = "default", "uid-"+p.Name
		memory := signals.Bytes(1000-10*i) * mib
		if p.Name == "small" {
			memory = 20 * mib
		}
		candidates = append(candidates, signals.Candidate{Pod: p, Usage: &signals.Usage{Memory: signals.Of(memory)}})
	}
	o.Ranking = ranking.Rank(candidates, signals.MemoryAvailable, 0)
	o.Relief = ranking.TotalRelief(o.Ranking)
	for i := range o.Ranking {
		if p := o.Ranking[i].Pod; p.Name == victim {
			o.Evicted = &eviction.Eviction{Pod: p, Cause: signals.MemoryAvailable.String()}
		}
	}
	return o
}

// ofDeleted returns the outcome, as one in which the pod was chosen for what deleted pods hold.
func ofDeleted(o *Outcome) *Outcome { o.endedDeleted = true; return o }

func plain(name string) *signals.Pod { return &signals.Pod{Name: name} }

func TestOutcome_ChoiceHasVictimAndNext(t *testing.T) {
	static := func(name string) *signals.Pod { return &signals.Pod{Name: name, Protection: signals.Static} }
	namespaced := &signals.Pod{Name: "dns", Protection: signals.Namespaced}
	going := &signals.Pod{Name: "going", EndsBy: time.Unix(1, 0)}
	last := &signals.Pod{Name: "last", Last: true}
	for about, test := range map[string]struct {
		outcome *Outcome
		failed  string
		want    []string
		kubelet string
	}{
		"the first": {rankedOutcome("a", plain("a"), plain("b"), plain("c")), "",
			[]string{"1 a ", "2 b "}, "a"},
		"the only one": {rankedOutcome("a", plain("a")), "", []string{"1 a "}, "a"},
		"behind many": {rankedOutcome("v", static("a"), static("b"), static("c"), static("d"), plain("v"), static("e"), static("f"), plain("n"), plain("o")), "",
			[]string{"1 a static pod", "2 b static pod", "3 c static pod", "5 v ", "6 e static pod", "8 n "}, "v"},
		"behind a limited one, before a small one": {rankedOutcome("v", plain("a"), plain("v"), plain("small")), "",
			[]string{"1 a a limit on evictions", "2 v ", "3 small too small to help"}, "a"},
		"behind one that could not be ended": {rankedOutcome("v", plain("a"), plain("v")), "a",
			[]string{"1 a could not be ended", "2 v "}, "a"},
		"behind a protected namespace": {rankedOutcome("v", namespaced, plain("v")), "",
			[]string{"1 dns in a protected namespace", "2 v "}, "dns"},
		"a deleted one": {ofDeleted(rankedOutcome("going", plain("a"), going)), "",
			[]string{"1 a ", "2 going "}, "a"},
		"a deleted one, by the ranking": {rankedOutcome("late", plain("a"), &signals.Pod{Name: "late", EndsBy: time.Unix(1, 0)}), "",
			[]string{"1 a a limit on evictions", "2 late "}, "a"},
		"behind a limited one that is not among the first": {rankedOutcome("v", static("a"), static("b"), static("c"), plain("d"), plain("v")), "",
			[]string{"1 a static pod", "2 b static pod", "3 c static pod", "5 v "}, "d"},
		"before one that asked to go last": {rankedOutcome("v", last, plain("v")), "",
			[]string{"1 v ", "2 last "}, "last"},
	} {
		if test.failed != "" {
			test.outcome.Failed = []Failure{{&signals.Pod{UID: "uid-" + test.failed}, errors.New("it hangs")}}
		}
		c := test.outcome.choice()
		var got []string
		for i := range c.Places {
			p := &c.Places[i]
			got = append(got, fmt.Sprintf("%d %s %s", p.Place, p.Pod[len("default/"):], p.Passed))
			if r := &test.outcome.Ranking[p.Place-1]; p.Key != r.Key || p.Frees != int64(r.Relief.Amount) || p.UID != r.Pod.UID {
				t.Errorf("%s: place %+v, want the figures of %+v", about, p, r)
			}
		}
		if !slices.Equal(got, test.want) || c.Kubelet != "default/"+test.kubelet {
			t.Errorf("%s: places %q, kubelet %s\nwant   %q, %s", about, got, c.Kubelet, test.want, test.kubelet)
		}
		if c.Pods != len(test.outcome.Ranking) || c.Shortage != 500*mib || c.Least != 25*mib || c.Deleted != (about == "a deleted one") ||
			c.Limited != (strings.Contains(about, "limited") || about == "a deleted one, by the ranking") {
			t.Errorf("%s: %+v", about, c)
		}
	}
}

func TestOutcome_ChoiceAboveStorageLimitHasNoRanking(t *testing.T) {
	o := rankedOutcome("a", plain("a"), plain("b"))
	o.EndedByStorageLimit, o.Evicted.Cause = true, eviction.EmptyDirStorageLimit
	if c := o.choice(); c.Cause != eviction.EmptyDirStorageLimit || c.Places != nil || c.Kubelet != "" {
		t.Errorf("%+v", c)
	}
}

// Every eviction has its choice, also one that is not carried out, and nothing else has one.
func TestReport_EvictionsHaveChoice(t *testing.T) {
	for _, threshold := range []eviction.Threshold{hard(), soft()} {
		for _, dryRun := range []bool{false, true} {
			w := live(t, 3*time.Minute, dryRun, []eviction.Threshold{threshold}, func(w *env) {
				w.add("leaky", w.capacity)
				w.add("db", mib)
			})
			evictions := 0
			for _, d := range w.reported {
				chosen := d.Decision == Evicted || d.Decision == SoftEvicting || d.Decision == WouldEvict
				if chosen {
					evictions++
				}
				if is := d.Choice != nil; is != chosen {
					t.Errorf("%s: has a choice: %t", d.Decision, is)
				}
			}
			if evictions == 0 {
				t.Errorf("%v, dry run %t: %d evictions", threshold.Hard(), dryRun, evictions)
			}
		}
	}
}
