package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// chosen is live with a choice.
func chosen(t *testing.T, d time.Duration, c eviction.Choice, thresholds []eviction.Threshold, setup func(*env)) *env {
	t.Helper()
	return liveIn(t, d, Settings{}, eviction.Settings{Thresholds: thresholds, Choice: c}, func(w *env, p *Parts) {
		p.Consumers = w
		setup(w)
	})
}

// hostPathWriter re-enacts k#127548: a pod writes to a hostPath, which counts as no pod's usage,
// beside fifteen pods with next to nothing.
func hostPathWriter(w *env) {
	w.disk, w.collects = 6*gib, time.Second
	for i := range 15 {
		w.add(fmt.Sprintf("small-%02d", i), mib).disk = mib
	}
}

func TestChoice_SparesBystandersOfFullDisk(t *testing.T) {
	w := chosen(t, 10*time.Minute, eviction.Helps, full(), hostPathWriter)
	if want := []Verb{CollectingGarbage, NoneHelps}; !slices.Equal(w.verbs(), want) || len(w.pods) != 15 {
		t.Fatalf("%d pods remain, reported %v, want %v", len(w.pods), w.verbs(), want)
	}
	d := w.lines(NoneHelps)[0]
	const reason = "; 4111Mi missing, and all pods that may be evicted hold 15Mi together: no pod is evicted; the kubelet would evict default/small-00"
	if d.KubeletWouldEvict != "default/small-00" || d.Spared != 15 || !strings.HasSuffix(d.Reason, reason) || d.Signal != "nodefs.available" || d.Consumers != nil || len(d.Ranking) != maxPlaces {
		t.Errorf("%+v", d)
	}
	if n := len(chosen(t, 10*time.Minute, eviction.AsKubelet, full(), hostPathWriter).evicted()); n != 15 {
		t.Errorf("with the kubelet's choice %d pods were evicted, want 15", n)
	}
}

// The disk answers in every other check only. The line that no pod helps is written once.
func TestChoice_LoggedOnceWhileDiskAnswersNowAndThen(t *testing.T) {
	w := chosen(t, 5*time.Minute, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		for i := range 14 {
			w.later(time.Duration(20*i+15)*time.Second, func() { w.diskSilent = true })
			w.later(time.Duration(20*i+25)*time.Second, func() { w.diskSilent = false })
		}
	})
	lines := slices.DeleteFunc(w.lines(NoneHelps), func(d *Decision) bool { return d.Repeated != "" })
	if len(lines) != 1 || w.count(SignalsChanged) == 0 {
		t.Errorf("%d lines, want 1: %v", len(lines), w.verbs())
	}
}

// A daemon outside of pods uses the memory, beside twelve tiny pods.
func TestChoice_SparesBystandersOfDaemon(t *testing.T) {
	for _, rate := range []signals.Amount{20 * mib, 300 * mib} {
		w := chosen(t, 5*time.Minute, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) {
			w.daemon(rate, 1000*mib)
			for i := range 12 {
				w.add(fmt.Sprintf("tiny-%02d", i), mib/2)
			}
		})
		if lines := w.lines(NoneHelps); len(w.pods) != 12 || w.count(Failed) != 0 || len(lines) < 2 || lines[1].Repeated == "" {
			t.Fatalf("%d MiB/s: %d pods remain, reported %v", rate/mib, len(w.pods), w.verbs())
		}
		if d := w.lines(NoneHelps)[0]; d.Spared != 12 || !strings.Contains(d.Reason, "and no pod that may be evicted holds") {
			t.Errorf("%+v", d)
		}
		if early := w.checks[signals.Early]; early > 12_500 {
			t.Errorf("%d MiB/s: %d early checks", rate/mib, early)
		}
	}
}

// The hog is ranked last, by its priority. What the kubelet would have done is in the record.
func TestChoice_EvictsHogBehindTinyPods(t *testing.T) {
	for dryRun, want := range map[bool]Verb{false: Evicted, true: WouldEvict} {
		w := live(t, 9*time.Second, dryRun, []eviction.Threshold{hard()}, func(w *env) {
			for i := range 3 {
				w.add(fmt.Sprintf("tiny-%d", i), mib)
			}
			w.add("hog", 960*mib).Priority = 1000
		})
		d := w.lines(want)
		if len(d) != 1 || d[0].Pod != "default/hog" || d[0].KubeletWouldEvict != "default/tiny-0" || d[0].Spared != 3 || !strings.HasSuffix(d[0].Ranking[0].Reason, ", too small to help") {
			t.Errorf("dry run %t: %+v", dryRun, d)
		}
	}
}

// The kubelet's choice is the same: no key about it.
func TestChoice_SameAsKubelets(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("hog", 960*mib)
		w.add("tiny", mib)
		w.add("static", 5*mib).Protection = signals.Static
	})
	if d := w.lines(Evicted); len(d) != 1 || d[0].KubeletWouldEvict != "" || d[0].Spared != 0 {
		t.Errorf("%+v", d)
	}
}

// Every check decides anew. After the eviction the reason is reported once more.
func TestChoice_DecidesAnewInEachCheck(t *testing.T) {
	w := chosen(t, 3*time.Minute, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) {
		w.daemon(0, 0)
		outside := 960 * signals.Amount(mib)
		w.outside = func() signals.Amount { return outside }
		w.add("tiny", mib/2)
		grows := w.add("grows", mib/2)
		w.later(65*time.Second, func() { grows.memory = 20 * mib })
		w.later(85*time.Second, func() { outside = 500 * mib })
		w.later(125*time.Second, func() { outside = 960 * mib })
	})
	want := []Verb{NoneHelps, Evicted, ReclaimDone, NoneHelps, NoneHelps}
	if got := w.verbs(); !slices.Equal(got, want) || !slices.Equal(w.evicted(), []string{"default/grows"}) {
		t.Errorf("evicted %v, reported %v, want %v", w.evicted(), got, want)
	}
}

// The first pod of the ranking holds nearly nothing but page cache, which its end does not free.
func TestChoice_PageCacheIsNoRelief(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		reader, cache, another signals.Amount
		evicted                []string
	}{
		{"the other pod holds more than the page cache", 400 * mib, 399 * mib, 574 * mib, []string{"default/another"}},
		{"the other pod is not the cause", 850 * mib, 849 * mib, 124 * mib, nil},
		{"too little memory even without page cache", 25 * mib, 24 * mib, 949 * mib, []string{"default/another"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := chosen(t, 9*time.Second, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) {
				reader := w.add("reader", tc.reader)
				reader.cache, reader.Priority = tc.cache, -1
				w.add("another", tc.another)
			})
			if got := w.evicted(); !slices.Equal(got, tc.evicted) {
				t.Fatalf("evicted %v, want %v", got, tc.evicted)
			}
			verb, reason := Evicted, ""
			if tc.evicted == nil {
				verb, reason = NoneHelps, "; 50Mi missing, which is page cache of default/reader: pods behind it that free less than 849Mi are passed over; the kubelet would evict default/reader"
			}
			d := w.lines(verb)[0]
			if d.KubeletWouldEvict != "default/reader" || !strings.HasSuffix(d.Reason, reason) || !strings.HasSuffix(d.Ranking[0].Reason, ", frees 1Mi, too small to help") {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Something outside of pods fills memory. By memory without page cache its end is near, so page cache is not the cause, and the
// pod that helps is evicted before the threshold is met without page cache.
func TestChoice_PageCacheBesideImminentExhaustion(t *testing.T) {
	w := chosen(t, 4*time.Second, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) {
		reader := w.add("reader", 500*mib)
		reader.cache, reader.Priority = 499*mib, -1
		w.add("another", 300*mib)
		begun := time.Now()
		w.outside = func() signals.Amount { return signals.Amount(time.Since(begun).Milliseconds()) * mib * 4 / 10 }
	})
	d := w.lines(Evicted)
	if len(d) == 0 || d[0].Pod != "default/another" || *d[0].Available+*d[0].Cache < 150*mib {
		t.Errorf("%v: %+v", w.evicted(), d)
	}
}

// A crash-looping pod holds next to nothing, and the layers of its dead containers much.
func TestChoice_DeadContainersAreRelief(t *testing.T) {
	w := chosen(t, 20*time.Second, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.disk = 10*gib + 500*mib
		crashing := w.add("crashing", mib)
		crashing.Priority, crashing.disk, crashing.dead = 1000, mib, gib
	})
	d := w.lines(Evicted)
	if len(d) != 1 || d[0].Pod != "default/crashing" || d[0].Spared != 15 || len(w.pods) != 15 {
		t.Fatalf("%d pods remain, reported %v", len(w.pods), w.verbs())
	}
	w = chosen(t, 20*time.Second, eviction.Helps, full(), func(w *env) {
		w.disk, w.collects = 10*gib, time.Second
		w.add("crashing", mib).dead = gib
	})
	d = w.lines(Evicted)
	if len(d) != 1 || d[0].Ranking[0].Reason != "uses 0, within its request of 0, priority 0, frees 1Gi" {
		t.Errorf("%+v", d)
	}
}

// Pods are ranked by processes, and threads are PIDs.
func TestChoice_ThreadsArePIDs(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{{Signal: signals.PIDAvailable, Value: quantity(100)}}, func(w *env) {
		w.pids = 20
		w.add("a", mib).processes = 2
		many := w.add("b", mib)
		many.processes, many.tasks = 2, 300
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/b"}) {
		t.Errorf("evicted %v", got)
	}
}

// A pod that was passed over does not make the eviction behind it one in place of a limited one.
func TestChoice_SparedPodIsNoLimitedPod(t *testing.T) {
	w := limitedRun(t, 9*time.Second, limiter.Policy{PerHour: 5}, []eviction.Threshold{hard()}, func(w *env) {
		w.add("tiny", mib/2).Priority = -1
		w.add("first", 30*mib)
		w.add("second", 930*mib).MemoryRequest = signals.Quantity{Value: gib}
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/first", "default/second"}) {
		t.Errorf("evicted %v, want first before second: it helps, and is no hog", got)
	}
}

// Garbage collection is enough for the hard threshold, and the soft one stays met. No pod holds what
// that one misses.
func TestChoice_NoEvictionForThresholdThatGarbageRelieved(t *testing.T) {
	thresholds := append(full(), eviction.Threshold{Signal: signals.NodefsAvailable, Value: quantity(15 * gib), Grace: time.Minute})
	w := chosen(t, 3*time.Minute, eviction.Helps, thresholds, func(w *env) {
		hostPathWriter(w)
		w.disk = 13 * gib
		w.later(95*time.Second, func() { w.disk, w.garbage = 8*gib, 4*gib })
	})
	if len(w.evicted()) != 0 || w.garbage != 0 || !slices.Contains(w.verbs(), NoneHelps) {
		t.Errorf("evicted %v, reported %v", w.evicted(), w.verbs())
	}
}

// Nothing can be done for the disk, which does not keep memory from being acted for.
func TestChoice_GivesWayToOtherThreshold(t *testing.T) {
	w := live(t, 9*time.Second, false, full(), func(w *env) {
		hostPathWriter(w)
		w.add("hog", 950*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/hog"}) {
		t.Errorf("evicted %v, reported %v", got, w.verbs())
	}
}

// Deleted pods hold the shortage together, each of them too little to help. The largest is ended,
// and no other pod in its place.
func TestChoice_DeletedPodsHoldShortageTogether(t *testing.T) {
	w := live(t, 45*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		for i := range 120 {
			w.add(fmt.Sprintf("going-%03d", i), mib).EndsBy = time.Now().Add(time.Hour)
		}
		w.add("stays", 900*mib)
	})
	if got := w.evicted(); len(got) == 0 || !strings.HasPrefix(got[0], "default/going-") {
		t.Errorf("evicted %v, reported %v", got, w.verbs())
	}
}

func TestChooseVictim_FilterDoesNotAllocate(t *testing.T) {
	policy := newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{hard()}})
	c := Checker{Machine: eviction.New(policy)}
	var pods []signals.Candidate
	for i := range 500 {
		pods = append(pods, signals.Candidate{Pod: &signals.Pod{UID: fmt.Sprint(i)}, Usage: &signals.Usage{Memory: signals.Of(signals.Bytes(1))}})
	}
	s := &signals.Snapshot{}
	s.Node[signals.MemoryAvailable] = signals.Observed(1, gib, time.Unix(1, 0))
	c.outcome = Outcome{Snapshot: s, Verdict: eviction.Verdict{Target: &policy.Thresholds[0]}, Ranking: ranking.Rank(pods, signals.MemoryAvailable, 0)}
	if n := testing.AllocsPerRun(100, func() {
		c.stage, c.nextIndex, c.outcome.Spared = atChoice, 0, 0
		c.assess(&c.outcome)
		if p := c.Next(context.Background(), &Constraints{}); p.Action != Wait {
			t.Fatalf("plan %+v", p)
		}
	}); n != 0 || c.outcome.Spared != 500 {
		t.Errorf("%v allocations, %d pods were passed over", n, c.outcome.Spared)
	}
}
