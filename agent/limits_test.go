package agent

import (
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

// limitedRun is live with a limiter.
func limitedRun(t *testing.T, d time.Duration, p limiter.Policy, thresholds []eviction.Threshold, setup func(*env)) *env {
	t.Helper()
	return liveIn(t, d, Settings{}, eviction.Settings{Thresholds: thresholds}, func(w *env, parts *Parts) {
		parts.Limiter, parts.LimiterSaved, parts.Consumers, w.limits = limiter.New(p), w.saveLimiter, w, p
		setup(w)
	})
}

// daemon fills memory outside of all pods at a rate, up to a maximum.
func (w *env) daemon(rate, maxUsage signals.Amount) {
	begun := time.Now()
	w.outside = func() signals.Amount {
		return min(maxUsage, signals.Amount(float64(rate)*time.Since(begun).Seconds()))
	}
}

// The daemon fills the memory of each evicted pod. It does so slowly enough that the threshold
// clears in between, or fast enough for imminent exhaustion. Two pods are evicted.
func TestIneffective_PausesAfterTwoEvictions(t *testing.T) {
	for rate, reached := range map[signals.Amount]time.Duration{2 * mib: 6 * time.Minute, 30 * mib: 4 * time.Minute, 900 * mib: 4 * time.Minute} {
		t.Run(fmt.Sprintf("%d MiB per second", rate/mib), func(t *testing.T) {
			p := limiter.Policy{MaxIneffective: 2, IneffectiveBackoff: 5 * time.Minute}
			w := limitedRun(t, reached, p, []eviction.Threshold{hard()}, func(w *env) {
				for i := range 8 {
					w.add(fmt.Sprintf("pod-%d", i), 50*mib)
				}
				w.daemon(rate, 714*mib)
			})
			lines := w.lines(Ineffective)
			if len(lines) != 2 || len(w.evicted()) != 2 {
				t.Fatalf("evicted %v, %d times found ineffective", w.evicted(), len(lines))
			}
			if lines[0].Repeated != "" || lines[0].Consumers != nil || lines[1].Repeated != RepeatMeasured || lines[0].Reason != lines[1].Reason {
				t.Errorf("%+v, then %+v", lines[0], lines[1])
			}
			d := lines[1]
			if d.LimitedBy != "ineffective" || len(d.Consumers) != 1 || d.Consumers[0].Name != "cgroup daemon" || !strings.Contains(d.Reason, "no pod is evicted for 5m0s") || len(d.Ranking) != 6 {
				t.Errorf("%+v", d)
			}
			if len(w.saved.Conditions) != 1 || w.saved.Conditions[0].Ineffective < 2 {
				t.Errorf("saved: %+v", w.saved)
			}
			if early := w.checks[signals.Early]; rate == 900*mib && early > 2000 {
				t.Errorf("%d early checks while evictions pause", early)
			}
		})
	}
}

func TestIneffective_LeakingPodIsStillEvicted(t *testing.T) {
	w := limitedRun(t, time.Minute, limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Hour}, []eviction.Threshold{hard()}, func(w *env) {
		w.add("small", 100*mib).Priority = -2
		w.add("other", 100*mib).Priority = -1
		leak := w.add("leak", 700*mib)
		leak.rate, leak.since = 40*mib, time.Now()
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/small", "default/other", "default/leak"}) || w.count(Ineffective) != 0 {
		t.Errorf("evicted %v, found ineffective %d times", got, w.count(Ineffective))
	}
}

// Threads that a pod starts meanwhile are no usage outside of pods: the eviction before was not in
// vain.
func TestIneffective_CountsThreadsOfPods(t *testing.T) {
	thresholds := []eviction.Threshold{{Signal: signals.PIDAvailable, Value: quantity(100)}}
	w := limitedRun(t, time.Minute, limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Hour}, thresholds, func(w *env) {
		w.pids = 60
		w.add("small", mib).processes = 50
		bomb := w.add("bomb", mib)
		bomb.processes, bomb.tasks = 1, 800
		w.later(time.Millisecond, func() { bomb.tasks += 50 }) // while the first pod ends
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/small", "default/bomb"}) {
		t.Errorf("evicted %v, reported %v", got, w.verbs())
	}
}

func TestQuota_ReportedOnce(t *testing.T) {
	w := limitedRun(t, 3*time.Minute, limiter.Policy{PerHour: 1}, []eviction.Threshold{hard()}, func(w *env) {
		w.add("a", 600*mib)
		b := w.add("b", 350*mib)
		b.rate, b.since, b.until, b.then = 30*mib, time.Now().Add(20*time.Second), time.Now().Add(39*time.Second), 940*mib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/a"}) {
		t.Fatalf("evicted %v", got)
	}
	if w.count(Limited) != 1 || len(w.saved.Evictions) != 1 {
		t.Errorf("reported %d times, saved %+v", w.count(Limited), w.saved)
	}
	for _, d := range w.reported {
		if d.Decision == Limited && (d.LimitedBy != "quota" || d.Pod != "" || !strings.HasPrefix(d.Reason, "1 evictions within an hour")) {
			t.Errorf("%+v", d)
		}
	}
}

// Evictions in dry run are neither counted nor evaluated.
func TestDryRun_DoesNotCountEvictions(t *testing.T) {
	p := limiter.Policy{PerHour: 1, MaxIneffective: 1, IneffectiveBackoff: time.Minute, OwnerBackoff: time.Minute}
	w := liveIn(t, 3*time.Minute, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, parts *Parts) {
		parts.Limiter, parts.LimiterSaved, parts.Arming, w.limits = limiter.New(p), w.saveLimiter, never{}, p
		w.add("a", 950*mib).Owner = "o"
	})
	if n := w.count(WouldEvict); n < 3 || w.count(Limited)+w.count(Ineffective) != 0 || len(w.saved.Evictions) != 0 {
		t.Errorf("would evict %d times, limited %d times, saved %+v", n, w.count(Limited), w.saved)
	}
}

type never struct{}

func (never) Armed() (bool, string) { return false, "disarmed by the test" }
func (never) Check() (bool, string) { return false, "disarmed by the test" }

func TestSoftEviction_WithdrawnIsNotCounted(t *testing.T) {
	p := limiter.Policy{PerHour: 1, MaxIneffective: 1, IneffectiveBackoff: time.Minute, OwnerBackoff: time.Minute}
	w := limitedRun(t, 5*time.Minute, p, []eviction.Threshold{soft()}, func(w *env) {
		w.ending = time.Hour
		a := w.add("a", 800*mib)
		a.withdrawable, a.FromAPI, a.Owner = true, true, "o"
		other := w.add("b", 10*mib) // ends by itself, and the threshold clears
		other.rate, other.since, other.until, other.then = 1, time.Now(), time.Now().Add(90*time.Second), -500*mib
	})
	if w.count(SoftEvicting) != 1 || w.count(Withdrawn) != 1 || len(w.saved.Evictions)+len(w.saved.Owners[0].Evictions) != 0 {
		t.Errorf("requested %d, withdrawn %d, saved %+v", w.count(SoftEvicting), w.count(Withdrawn), w.saved)
	}
}

// The soft eviction uses up its hourly quota. It is escalated for a hard threshold as soon as
// without the quota.
func TestSoftEviction_EscalatedAfterQuotaIsUsedUp(t *testing.T) {
	left := map[int]int64{}
	for _, perHour := range []int{0, 1} {
		w := limitedRun(t, 3*time.Minute, limiter.Policy{PerHour: perHour}, []eviction.Threshold{soft(), hard()}, func(w *env) {
			w.ending, w.escalatedEnd = time.Hour, 100*time.Millisecond
			leak := w.add("leak", 800*mib)
			leak.rate, leak.since = 90*mib, time.Now().Add(75*time.Second+100*time.Millisecond)
		})
		if w.count(SoftEvicting) != 1 || w.count(Escalated) != 1 {
			t.Fatalf("quota %d: requested %d times, escalated %d times", perHour, w.count(SoftEvicting), w.count(Escalated))
		}
		i := slices.IndexFunc(w.reported, func(d *Decision) bool { return d.Decision == Escalated })
		left[perHour] = *w.reported[i].Available
	}
	if left[1] != left[0] || left[1] < 40*mib {
		t.Errorf("escalated with %d MiB available, and with %d without a quota", left[1]/mib, left[0]/mib)
	}
}

func TestOwnerBackoff_EvictsNoOtherPodInstead(t *testing.T) {
	p := limiter.Policy{OwnerBackoff: 10 * time.Minute}
	for imminent, want := range map[bool][]string{
		false: {"default/leak-0", "default/leak-1", "default/leak-2"},
		true:  {"default/leak-0", "default/leak-1", "default/leak-2", "default/leak-3"},
	} {
		w := limitedRun(t, 4*time.Minute, p, []eviction.Threshold{hard()}, func(w *env) {
			w.add("calm", 300*mib).MemoryRequest = signals.Quantity{Value: 400 * mib}
			for i := range 4 { // one after the other, each filling the rest
				leak := w.add(fmt.Sprintf("leak-%d", i), 0)
				leak.Owner, leak.Priority = "rs", int32(i)
				leak.rate, leak.since = 100*mib, time.Now().Add(time.Duration(i)*30*time.Second)
				leak.until, leak.then = leak.since.Add(6400*time.Millisecond), 640*mib
				if i == 3 && imminent {
					leak.rate, leak.until = 900*mib, time.Time{}
				}
			}
		})
		if got := w.evicted(); !slices.Equal(got, want) {
			t.Errorf("imminent %v: evicted %v", imminent, got)
		}
		if n := w.count(Limited); !imminent && n != 1 {
			t.Errorf("reported the limit %d times, want once", n)
		}
		for _, d := range w.reported {
			if d.Decision == Limited && (d.LimitedBy != "owner" || d.Pod != "default/leak-3" || !strings.Contains(d.Reason, "no pod behind it exceeds its request")) {
				t.Errorf("%+v", d)
			}
		}
	}
}

// The limiter compares usage as it is observed, and knows what a pod leaves behind.
func TestLimiterView_SeparatesUsageAndRelief(t *testing.T) {
	memory := func(usage, relief signals.Bytes) *signals.Usage {
		return &signals.Usage{Memory: signals.Of(usage), MemoryRelief: signals.Of(relief), Processes: signals.Of[signals.PIDs](2), Tasks: signals.Of[signals.PIDs](9)}
	}
	dead := &signals.Usage{OtherLayers: signals.FilesystemUsage{Bytes: signals.Of[signals.Bytes](70)}}
	for _, tc := range []struct {
		about string
		sig   signals.Signal
		usage *signals.Usage
		want  limiter.Share
	}{
		{"page cache stays", signals.MemoryAvailable, memory(100, 30), limiter.Share{Used: 100, Kept: 70, Known: true}},
		{"the relief is newer than the usage", signals.MemoryAvailable, memory(100, 130), limiter.Share{Used: 130, Known: true}},
		{"one figure", signals.MemoryAvailable, &signals.Usage{Memory: signals.Of[signals.Bytes](100)}, limiter.Share{Used: 100, Known: true}},
		{"threads", signals.PIDAvailable, memory(100, 30), limiter.Share{Used: 9, Known: true}},
		{"dead layers are the pod's", signals.NodefsAvailable, dead, limiter.Share{Used: 70, Known: true}},
		{"unmeasured", signals.MemoryAvailable, nil, limiter.Share{}},
	} {
		ranked := ranking.Rank([]signals.Candidate{{Pod: &signals.Pod{}, Usage: tc.usage}}, tc.sig, signals.Rootfs)
		if got := limiterView(&signals.Observation{}, ranked).Shares[0]; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.about, got, tc.want)
		}
	}
}
