package agent

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// rankedFor returns an outcome for a signal, with pods of these keys in this order.
func rankedFor(s signals.Signal, keys ...ranking.Key) *Outcome {
	o := &Outcome{Verdict: eviction.Verdict{Target: &eviction.Threshold{Signal: s}}}
	for i, k := range keys {
		k.Order = ranking.For(s)
		o.Ranking = append(o.Ranking, ranking.Ranked{Candidate: signals.Candidate{Pod: &signals.Pod{Namespace: fmt.Sprintf("tenant-%d", i), Name: fmt.Sprintf("pod-%d", i)}}, Key: k})
	}
	return o
}

func TestExplanation_NamesCauseUsageAndPlace(t *testing.T) {
	type key = ranking.Key
	deleted := rankedFor(signals.MemoryAvailable, key{Usage: 900 * mib}, key{Usage: 305*mib + 5, Request: 20 * mib})
	deleted.endedDeleted = true
	for about, test := range map[string]struct {
		outcome *Outcome
		pod     int
		want    string
	}{
		"memory": {rankedFor(signals.MemoryAvailable, key{Usage: 305*mib + 5, Request: 20 * mib, Priority: -7}, key{}), 0,
			"Plimsoll evicted this pod because the node was low on memory: the pod used 305Mi of memory against a request of 20Mi, has priority -7, and was number 1 of 2 in the order of eviction."},
		"memory of all pods, without a request": {rankedFor(signals.AllocatableMemoryAvailable, key{}, key{}, key{Usage: 5 << 10}), 2,
			"Plimsoll evicted this pod because the node was low on memory: the pod used 5Ki of memory without a request, has priority 0, and was number 3 of 3 in the order of eviction, behind pods that were passed over."},
		"disk, measured in part": {rankedFor(signals.NodefsAvailable, key{Usage: 3 << 30, Request: 1 << 30, Incomplete: "too many files in tenant-9/secret"}), 0,
			"Plimsoll evicted this pod because the node was low on disk space: the pod used at least 3Gi of disk space against a request of 1Gi, has priority 0, and was number 1 of 1 in the order of eviction."},
		"inodes": {rankedFor(signals.ImagefsInodesFree, key{Usage: 12_500}), 0,
			"Plimsoll evicted this pod because the node was low on inodes: the pod used 12500 inodes, has priority 0, and was number 1 of 1 in the order of eviction."},
		"processes": {rankedFor(signals.PIDAvailable, key{Usage: 5000, Tasks: 9000}), 0,
			"Plimsoll evicted this pod because the node was low on process IDs: the pod ran 5k processes, has priority 0, and was number 1 of 1 in the order of eviction."},
		"without stats": {rankedFor(signals.MemoryAvailable, key{NoStats: true}), 0,
			"Plimsoll evicted this pod because the node was low on memory: the pod could not be measured, has priority 0, and was number 1 of 1 in the order of eviction."},
		"under deletion": {deleted, 1,
			"Plimsoll ended this pod, which was being deleted, because the node was low on memory: the pod used 305Mi of memory against a request of 20Mi, and its end frees most of the pods under deletion that could be ended."},
	} {
		if got := test.outcome.explanation(test.outcome.Ranking[test.pod].Pod); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", about, got, test.want)
		}
	}
	if got := deleted.explanation(&signals.Pod{}); got != "" {
		t.Errorf("a pod that is not ranked: %q", got)
	}
}

// However large the figures are, the sentence is short, and it has no name of another pod, nor the reason for which a
// measurement is incomplete, which may have one.
func TestExplanation_IsBoundedAndHasNoNames(t *testing.T) {
	for s := range signals.All {
		for _, incomplete := range []string{"", strings.Repeat("tenant-1/pod-1 ", 1000)} {
			k := ranking.Key{Usage: math.MaxInt64, Request: math.MaxInt64, Priority: math.MinInt32, Incomplete: incomplete}
			o := rankedFor(s, k, k, k)
			for _, o.endedDeleted = range []bool{false, true} {
				got := o.explanation(o.Ranking[1].Pod)
				if got == "" || len(got) > 320 || strings.Contains(got, "tenant-") || strings.Contains(got, "pod-") || strings.Count(got, ".") != 1 || strings.ContainsAny(got, "\n") {
					t.Errorf("%s: %d bytes: %s", s, len(got), got)
				}
			}
		}
	}
}

// Every eviction for a threshold that is carried out has its explanation, with the place that its record has.
func TestEvict_HasExplanation(t *testing.T) {
	w := live(t, 3*time.Minute, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("leaky", w.capacity)
		w.add("db", mib)
	})
	if len(w.explained) == 0 {
		t.Fatal("no eviction was carried out")
	}
	for _, text := range w.explained {
		if !strings.Contains(text, "was low on memory") || !strings.Contains(text, "was number 1 of 2 in the order of eviction") {
			t.Errorf("%q", text)
		}
	}
}
