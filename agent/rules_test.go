package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// course returns all that an agent reported, in lines without pointers.
func course(w *env, begun time.Time) (lines []string) {
	for _, d := range w.reported {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s %q %q %v %v %v", d.Time.Sub(begun), d.Decision, d.Pod, d.Signal, d.Threshold, d.Reason, d.LimitedBy, d.Conditions, d.Failed, d.Ranking))
	}
	return lines
}

// Rules that replace equal ones before every periodic check change nothing: no timer, no eviction in
// flight, no wait, no count, no rate, and no line of the log.
func TestRules_EqualOnesChangeNothing(t *testing.T) {
	limits := limiter.Policy{PerHour: 3, MaxIneffective: 2, IneffectiveBackoff: time.Minute, OwnerBackoff: 2 * time.Minute}
	twice := append(full(), soft(), eviction.Threshold{Signal: signals.NodefsInodesFree, Value: quantity(1000), MinReclaim: quantity(500)})
	for name, tc := range map[string]struct {
		lasts      time.Duration
		thresholds []eviction.Threshold
		setup      func(*env)
	}{
		"leak and daemon": {20 * time.Minute, []eviction.Threshold{hard(), soft()}, func(w *env) {
			for i := range 8 {
				w.add(fmt.Sprintf("pod-%d", i), 50*mib)
			}
			w.daemon(2*mib, 714*mib)
		}},
		"soft evictions without an answer": {30 * time.Minute, []eviction.Threshold{hard(), soft()}, func(w *env) {
			hog := w.add("hog", 800*mib)
			unansweredFor(hog, 6*time.Minute+time.Second) // not at the time of a check
			hog.rate, hog.since, hog.until, hog.then = -5*mib, time.Now().Add(22*time.Minute), time.Now().Add(23*time.Minute), 950*mib
			unansweredFor(w.add("small", 10*mib), 6*time.Minute+time.Second)
		}},
		"slow soft eviction": {3 * time.Minute, []eviction.Threshold{hard(), soft()}, func(w *env) {
			w.ending, w.escalatedEnd = time.Hour, 5*time.Second
			w.add("slow", 800*mib).FromAPI = true
			other := w.add("other", 10*mib)
			other.rate, other.since, other.until, other.then = 60*mib, time.Now().Add(68*time.Second), time.Now().Add(70*time.Second+time.Millisecond), 10*mib
		}},
		"owner that recreates its pods": {8 * time.Minute, twice, func(w *env) { crashLoop(w, 6*gib, 0) }},
		"disk and memory": {5 * time.Minute, twice, func(w *env) {
			w.disk, w.garbage, w.collects, w.inodes = 20*gib, gib, 3*time.Second, 2000
			big := w.add("big", 300*mib)
			big.disk, big.removed, big.inodes = 11*gib, 19*time.Second, 1200
			leak := w.add("leak", 100*mib)
			leak.rate, leak.since = 10*mib, time.Now().Add(time.Minute)
		}},
		"no pod helps": {5 * time.Minute, []eviction.Threshold{hard()}, func(w *env) {
			w.add("tiny", mib)
			w.outside = func() signals.Amount { return 980 * mib }
		}},
	} {
		run := func(replaced bool) (adopted int, lines []string, saved string) {
			var begun time.Time
			w := liveIn(t, tc.lasts, Settings{}, eviction.Settings{Thresholds: tc.thresholds}, func(w *env, p *Parts) {
				begun = time.Now()
				p.Limiter, p.LimiterSaved, p.Consumers, w.limits = limiter.New(limits), w.saveLimiter, w, limits
				tc.setup(w)
				if replaced {
					p.Rules = func() *Rules {
						adopted++
						r := rulesOf(newPolicy(t, eviction.Settings{Thresholds: tc.thresholds}))
						r.Limits = limits
						return r
					}
				}
			})
			return adopted, course(w, begun), fmt.Sprintf("%+v", w.saved.At(func(t time.Time) time.Time { return t.Add(-time.Duration(begun.UnixNano())) }))
		}
		_, want, saved := run(false)
		adopted, got, savedToo := run(true)
		if len(want) < 2 || adopted < 15 {
			t.Errorf("%s: %d lines, %d replacements: the story is too quiet", name, len(want), adopted)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: after %d replacements the agent reported\n%v\nwant\n%v", name, adopted, got, want)
		}
		if savedToo != saved {
			t.Errorf("%s: the limiter has saved %s, want %s", name, savedToo, saved)
		}
	}
}

// A thousand changes to random rules while memory and a disk are short. The recorded run is repeated check by
// check (liveIn), and the rules of a check are always those that the port returned last, except while
// garbage is collected.
func TestRules_ThousandRandomChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	changes, deviates := 0, 0
	var latest *Rules
	w := liveIn(t, 6*time.Hour, Settings{MaxFillRate: 64 << 20}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		p.Limiter, p.LimiterSaved, p.Consumers = limiter.New(limiter.Policy{}), w.saveLimiter, w
		w.disk, w.garbage, w.collects, w.inodes = 40*gib, 5*gib, 2*time.Second, 5000
		first := rulesOf(p.Machine.Policy())
		p.Rules = func() *Rules {
			if latest == nil {
				latest = first
				return latest
			}
			changes++
			latest = randomRules(t, r)
			return latest
		}
		p.Inventory = refresher(func() { // once per periodic check
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.pods) < 12 {
				pod := w.add(fmt.Sprintf("pod-%d", changes), signals.Amount(r.IntN(160))*mib)
				pod.disk, pod.inodes = signals.Amount(r.IntN(8))*gib, signals.Amount(r.IntN(800))
				pod.FromAPI, pod.withdrawable, pod.Owner = r.IntN(2) == 0, true, fmt.Sprintf("owner-%d", r.IntN(3))
				if r.IntN(4) == 0 {
					pod.rate, pod.since = signals.Amount(r.IntN(20))*mib, time.Now()
				}
			}
		})
		w.ending = 15 * time.Second
		p.Reporter = checkedReporter{w, func(o *Outcome, policy *eviction.Policy) {
			if o.Snapshot.Kind == signals.Periodic && latest != nil && policy != latest.Policy {
				deviates++
			}
		}}
	})
	if changes < 1000 || len(w.evicted()) < 40 || w.count(SoftEvicting) < 10 || w.count(Limited)+w.count(Ineffective) < 5 {
		t.Errorf("%d changes, %d evictions, %d of them soft, %d limited: the story is too quiet", changes, len(w.evicted()), w.count(SoftEvicting), w.count(Limited)+w.count(Ineffective))
	}
	if deviates > changes/4 || w.collected == 0 {
		t.Errorf("%d of %d changes were not adopted in their check, %d collections", deviates, changes, w.collected)
	}
}

// randomRules draws thresholds, periods, choice and limits.
func randomRules(t *testing.T, r *rand.Rand) *Rules {
	t.Helper()
	draw := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	s := eviction.Settings{Layout: signals.Layout(r.IntN(3)), Choice: eviction.Choice(r.IntN(2)), EarlyEviction: eviction.EarlyEviction(r.IntN(3))}
	for _, t := range []eviction.Threshold{hard(), soft(), full()[0], {Signal: signals.NodefsInodesFree, Value: quantity(1000)}} {
		if r.IntN(4) == 0 {
			continue
		}
		t.Value.Quantity.Value = t.Value.Quantity.Value * signals.Amount(5+r.IntN(10)) / 10
		if t.Grace > 0 {
			t.Grace = draw(5*time.Second, 20*time.Second, time.Minute)
		}
		if r.IntN(3) == 0 {
			t.MinReclaim.Quantity.Value = t.Value.Quantity.Value / 4
		}
		s.Thresholds = append(s.Thresholds, t)
	}
	rules := rulesOf(newPolicy(t, s))
	rules.Limits = limiter.Policy{PerHour: r.IntN(40), MaxIneffective: r.IntN(3), IneffectiveBackoff: draw(10*time.Second, time.Minute), OwnerBackoff: draw(0, 10*time.Second, time.Minute)}
	rules.MaxFillRate, rules.LogChecks = signals.Bytes(16+r.IntN(100))<<20, r.IntN(2) == 0 // few early checks, so that the test is short
	return rules
}

// refresher implements Inventory.
type refresher func()

func (f refresher) Refresh(context.Context) { f() }

// checkedReporter passes each outcome to a function.
type checkedReporter struct {
	*env
	checked func(*Outcome, *eviction.Policy)
}

func (r checkedReporter) Checked(o *Outcome, p *eviction.Policy) { r.checked(o, p) }

// Rules that need a signal which was not observed before have it observed in the same check: it is never
// unknown because of the change.
func TestRules_NewSignalIsObservedAtOnce(t *testing.T) {
	var later *Rules
	observed := false
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		w.add("calm", 100*mib)
		begun, first := time.Now(), rulesOf(p.Machine.Policy())
		later = rulesOf(newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, BindAllocatable: true}))
		p.Rules = func() *Rules {
			if time.Since(begun) < 15*time.Second {
				return first
			}
			observed = true
			return later
		}
		p.Observer = observes(func(into *signals.Observations, kind signals.Kind) {
			w.Observe(into, kind)
			if into[signals.AllocatableMemoryAvailable] = signals.Unknown("no threshold uses it"); observed {
				into[signals.AllocatableMemoryAvailable] = into[signals.MemoryAvailable]
			}
		})
	})
	if n := w.count(SignalsChanged); n != 0 || !observed {
		t.Errorf("%d times a signal became unknown, %t", n, observed)
	}
}

// A kill whose signal the new rules do not have is still waited for, while another signal of the condition is short.
func TestRules_WaitOutlivesItsSignal(t *testing.T) {
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signals.AllocatableMemoryAvailable, Value: quantity(100 * mib)}}}, func(w *env, p *Parts) {
		w.add("big", 950*mib).unkillable = true
		w.add("other", 20*mib)
		begun, first, later := time.Now(), rulesOf(p.Machine.Policy()), rulesOf(newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}))
		p.Rules = func() *Rules {
			if time.Since(begun) < 5*time.Second {
				return first
			}
			return later
		}
		p.Observer = observes(func(into *signals.Observations, kind signals.Kind) {
			w.Observe(into, kind)
			into[signals.AllocatableMemoryAvailable] = into[signals.MemoryAvailable]
		})
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

type observes func(into *signals.Observations, kind signals.Kind)

func (f observes) Observe(into *signals.Observations, kind signals.Kind) { f(into, kind) }

// A soft eviction whose threshold the new rules do not have is withdrawn, and one that they raise goes on. A
// lower one that is met has to wait for its own grace period.
func TestRules_SoftEvictionFollowsThem(t *testing.T) {
	for name, tc := range map[string]struct {
		after     []eviction.Threshold
		withdrawn int
	}{
		"removed":          {[]eviction.Threshold{hard()}, 1},
		"lowered":          {[]eviction.Threshold{hard(), {Signal: signals.MemoryAvailable, Value: quantity(150 * mib), Grace: time.Minute}}, 1},
		"lowered, and met": {[]eviction.Threshold{hard(), {Signal: signals.MemoryAvailable, Value: quantity(250 * mib), Grace: time.Minute}}, 1},
		"raised":           {[]eviction.Threshold{hard(), {Signal: signals.MemoryAvailable, Value: quantity(400 * mib), Grace: time.Hour}}, 0},
	} {
		w := liveIn(t, 95*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard(), soft()}}, func(w *env, p *Parts) {
			w.ending = time.Hour
			pod := w.add("hog", 800*mib)
			pod.FromAPI, pod.withdrawable = true, true
			begun, first, later := time.Now(), rulesOf(p.Machine.Policy()), rulesOf(newPolicy(t, eviction.Settings{Thresholds: tc.after}))
			p.Rules = func() *Rules {
				if time.Since(begun) < 75*time.Second {
					return first
				}
				return later
			}
		})
		if w.count(SoftEvicting) != 1 || w.count(Withdrawn) != tc.withdrawn {
			t.Errorf("%s: reported %v, want %d withdrawals", name, w.verbs(), tc.withdrawn)
		}
	}
}

// Other thresholds of disks do not use the result of a collection that ended by the previous ones, and
// other rules do.
func TestRules_CollectionIsForThresholdsOfDisks(t *testing.T) {
	for name, tc := range map[string]struct {
		garbage   signals.Amount
		after     []eviction.Threshold
		collected int
	}{
		"other memory": {gib, []eviction.Threshold{full()[0], soft()}, 1},
		"other disks":  {3 * gib, []eviction.Threshold{{Signal: signals.NodefsAvailable, Value: quantity(12 * gib)}, hard()}, 2},
	} {
		w := liveIn(t, 9*time.Second, Settings{}, eviction.Settings{Thresholds: full()}, func(w *env, p *Parts) {
			w.disk, w.garbage, w.collects = 21*gib, tc.garbage, 3*time.Second
			w.add("big", 1).disk = 13 * gib
			rules := []*Rules{rulesOf(p.Machine.Policy()), rulesOf(newPolicy(t, eviction.Settings{Thresholds: tc.after}))}
			p.Rules = func() *Rules {
				r := rules[0]
				rules[0] = rules[1]
				return r
			}
		})
		if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) || w.collected != tc.collected {
			t.Errorf("%s: evicted %v after %d collections, want default/big after %d", name, got, w.collected, tc.collected)
		}
	}
}
