package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// repeats returns why each line that no pod helps was written; empty for the first one of a cause.
func (w *env) repeats() (all []Repeat) {
	for _, d := range w.lines(NoneHelps) {
		all = append(all, d.Repeated)
	}
	return all
}

// expectRepeats checks why the lines that no pod helps were written.
func expectRepeats(t *testing.T, w *env, want ...Repeat) {
	t.Helper()
	if got := w.repeats(); !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
		for _, d := range w.lines(NoneHelps) {
			t.Logf("%s %q available %d: %+v", d.Time.Format(time.TimeOnly), d.Repeated, *d.Available, d.Consumers)
		}
	}
}

// writes returns a hostPath that a pod fills.
func writes(amount signals.Amount) signals.Consumer {
	return signals.Consumer{Name: "/data", Kind: signals.ConsumerHostPath, Amount: amount, Pod: "default/writer"}
}

// Re-enacts k#127548. The reason is written at once, and again with the hostPath and the pod that mounts
// it as soon as these are known: before anything is killed.
func TestConsumers_NamedBeforeAnyPodIsKilled(t *testing.T) {
	w := chosen(t, 2*time.Minute, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.pods[3].Protection = signals.Critical
		w.searches = 700 * time.Millisecond
		w.consumers = func() []signals.Consumer { return []signals.Consumer{writes(90 * gib)} }
	})
	expectRepeats(t, w, "", RepeatMeasured)
	lines := w.lines(NoneHelps)
	first, second := *lines[0], *lines[1]
	if len(second.Consumers) != 1 || second.Consumers[0] != writes(90*gib) || first.Consumers != nil {
		t.Errorf("consumers %+v, then %+v", first.Consumers, second.Consumers)
	}
	second.Repeated, second.Consumers = "", nil
	if fmt.Sprint(first.Time, first.Reason, first.Spared, *first.Available) != fmt.Sprint(second.Time, second.Reason, second.Spared, *second.Available) {
		t.Errorf("the second line is another decision: %+v, %+v", first, second)
	}
	s := w.shortages[0]
	if s.Signal != signals.NodefsAvailable || s.Pods.Amount != 15*mib || s.Pods.Kind != signals.ConsumerPods || s.Pods.Incomplete != "" || s.Seen.Capacity != 100*gib || s.Seen.Available >= 6*gib {
		t.Errorf("searched for the consumers of %+v", s)
	}
	if n := len(w.shortages); n != 2 {
		t.Errorf("%d searches in two minutes, want one a minute", n)
	}
}

// A search that takes long delays no check and no kill, and ends.
func TestConsumers_SearchDelaysNoKill(t *testing.T) {
	w := chosen(t, 2*time.Minute, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.searches = time.Hour
		hog := w.add("hog", 10*mib)
		hog.rate, hog.since, hog.until = 400*mib, time.Now().Add(5*time.Second), time.Now().Add(time.Hour)
	})
	d := w.lines(Evicted)
	if len(d) != 1 || d[0].Pod != "default/hog" || d[0].Check != "early" || w.minAvailable < 0 {
		t.Errorf("evicted %v, at least %d bytes were available", w.evicted(), w.minAvailable)
	}
	lines := w.lines(NoneHelps)
	if len(lines) == 0 || lines[0].Consumers != nil || lines[0].Repeated != "" {
		t.Fatalf("lines %+v", lines)
	}
	last := lines[len(lines)-1]
	if last.Repeated != RepeatMeasured || !slices.Equal(last.Unmeasured, []string{"the search was ended"}) {
		t.Errorf("the last line %+v, want one after 30 s", last)
	}
}

// Evictions for memory continue while the consumers of a disk are searched, and those of memory are
// searched too.
func TestConsumers_OneSearchPerCondition(t *testing.T) {
	w := chosen(t, 25*time.Second, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		for _, p := range w.pods {
			p.memory = mib / 2
		}
		w.outside = func() signals.Amount { return 960 * mib }
		w.searches = 29 * time.Second
	})
	var of []signals.Signal
	for _, s := range w.shortages {
		of = append(of, s.Signal)
	}
	slices.Sort(of)
	if !slices.Equal(of, []signals.Signal{signals.MemoryAvailable, signals.NodefsAvailable}) {
		t.Errorf("searched for %v", of)
	}
}

// The line is repeated when the consumers change, at most every ten minutes: a pod may change what it
// holds at any rate.
func TestConsumers_RepeatedWhenChanged(t *testing.T) {
	for about, tc := range map[string]struct {
		consumers func(since time.Duration) []signals.Consumer
		want      []Repeat
	}{
		"the same": {func(time.Duration) []signals.Consumer { return []signals.Consumer{writes(90 * gib)} },
			[]Repeat{"", RepeatMeasured}},
		"slow growth": {func(since time.Duration) []signals.Consumer {
			return []signals.Consumer{writes(40*gib + signals.Amount(since.Minutes())*gib/2)}
		}, []Repeat{"", RepeatMeasured, RepeatChanged}},
		"another one": {func(since time.Duration) []signals.Consumer {
			if since > 25*time.Minute {
				return []signals.Consumer{{Name: "/other", Kind: signals.ConsumerHostPath, Amount: 50 * gib}, writes(40 * gib)}
			}
			return []signals.Consumer{writes(40 * gib)}
		}, []Repeat{"", RepeatMeasured, RepeatChanged}},
		"another one in each search": {func(since time.Duration) []signals.Consumer {
			return []signals.Consumer{{Name: fmt.Sprint("/", since), Amount: 40 * gib}}
		}, []Repeat{"", RepeatMeasured, RepeatChanged, RepeatChanged, RepeatChanged, RepeatChanged, RepeatChanged}},
	} {
		t.Run(about, func(t *testing.T) {
			w := chosen(t, time.Hour, eviction.Helps, full(), func(w *env) {
				hostPathWriter(w)
				begun := time.Now()
				w.consumers = func() []signals.Consumer { return tc.consumers(time.Since(begun)) }
			})
			got := w.repeats()
			if n := len(tc.want); len(got) == n-1 && tc.want[n-1] == RepeatChanged && n > 3 { // the last one may be due right after the end
				got = append(got, RepeatChanged)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("lines %q, want %q", got, tc.want)
			}
			var last time.Time
			for _, d := range w.lines(NoneHelps) {
				if d.Repeated == RepeatChanged && d.Time.Sub(last) < changesPace {
					t.Errorf("repeated after %s", d.Time.Sub(last))
				}
				last = d.Time
			}
		})
	}
}

// The record is written again once nothing is available, with the consumers. A signal that becomes
// available and used up in turns is no news.
func TestConsumers_RepeatedWhenUsedUp(t *testing.T) {
	w := chosen(t, 10*time.Minute, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.consumers = func() []signals.Consumer { return []signals.Consumer{writes(90 * gib)} }
		own := 15 * signals.Amount(mib)
		for i := range 4 {
			w.later(time.Duration(2*i+1)*time.Minute, func() { w.disk = own })
			w.later(time.Duration(2*i+2)*time.Minute, func() { w.disk = own + gib })
		}
	})
	expectRepeats(t, w, "", RepeatMeasured, RepeatUsedUp)
	if d := w.lines(NoneHelps)[2]; *d.Available != 0 || len(d.Consumers) != 1 || d.Consumers[0] != writes(90*gib) {
		t.Errorf("%+v", d)
	}
}

// Memory that falls is about to be used up, and then is.
func TestConsumers_RepeatedWhenExhaustionIsImminent(t *testing.T) {
	w := chosen(t, time.Minute, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) {
		for i := range 12 {
			w.add(fmt.Sprintf("tiny-%02d", i), mib/2)
		}
		begun := time.Now()
		w.outside = func() signals.Amount { // rests between the threshold and its end, then falls
			if since := time.Since(begun) - 30*time.Second; since > 0 {
				return min(950*mib+signals.Amount(since.Seconds()*400*mib), 1018*mib)
			}
			return 950 * mib
		}
	})
	expectRepeats(t, w, "", RepeatMeasured, RepeatImminent, RepeatUsedUp)
}

// Within one episode each cause is written once, although both alternate.
func TestConsumers_AlternatingCausesAreNoNews(t *testing.T) {
	w := chosen(t, 10*time.Minute, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.disk = 10*gib - 600*mib + 815*mib
		for i := range 40 {
			w.add(fmt.Sprintf("some-%02d", i), mib).disk = 20 * mib
		}
		for i := range 9 { // missing are 600 MiB, of which each pod holds less than a twentieth, and more than all hold
			w.later(time.Duration(i+1)*time.Minute, func() {
				if w.disk -= gib; i%2 == 1 {
					w.disk += 2 * gib
				}
			})
		}
	})
	if causes := w.repeats(); len(causes) != 3 || strings.Join([]string{string(causes[0]), string(causes[1]), string(causes[2])}, " ") != " measured " {
		t.Errorf("lines %q, want one of each cause and one with the consumers", causes)
	}
}

// A flapping threshold begins one search a minute, and its lines have the last consumers.
func TestConsumers_FlappingThreshold(t *testing.T) {
	w := chosen(t, 20*time.Minute, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.consumers = func() []signals.Consumer { return []signals.Consumer{writes(90 * gib)} }
		for i := range 80 {
			w.later(time.Duration(15*i+12)*time.Second, func() { w.disk = []signals.Amount{20, 6}[i%2] * gib })
		}
	})
	lines := w.lines(NoneHelps)
	if len(lines) < 20 || len(w.shortages) > 20 {
		t.Errorf("%d lines, %d searches", len(lines), len(w.shortages))
	}
	for _, d := range lines[1:] {
		if len(d.Consumers) != 1 {
			t.Errorf("a line without consumers: %+v", d)
		}
	}
	if d := w.repeats(); d[1] != RepeatMeasured || slices.ContainsFunc(d[2:], func(r Repeat) bool { return r != "" }) {
		t.Errorf("lines %q", d)
	}
}

// The threshold clears and is met again while the consumers are searched. The line with them has the
// figures of the present episode.
func TestConsumers_CompleteThePresentEpisode(t *testing.T) {
	w := chosen(t, 50*time.Second, eviction.Helps, full(), func(w *env) {
		hostPathWriter(w)
		w.disk = 15 * mib
		w.searches = 30 * time.Second
		w.later(8*time.Second, func() { w.disk = 20 * gib })
		w.later(12*time.Second, func() { w.disk = 6 * gib })
	})
	expectRepeats(t, w, "", "", RepeatMeasured)
	lines := w.lines(NoneHelps)
	if *lines[0].Available != 0 || *lines[1].Available == 0 || *lines[2].Available != *lines[1].Available || lines[2].Time.Before(lines[1].Time) {
		t.Errorf("the last line has %d bytes available, of %s", *lines[2].Available, lines[2].Time)
	}
}

func TestStep_ConsumersDoNotAllocate(t *testing.T) {
	a := steadyAgent(t, 4<<30)
	a.consumption = newConsumption(noConsumers{})
	now := time.Now()
	a.nextPeriodic = now.Add(time.Hour)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(5 * time.Millisecond)
		a.applyResults()
		a.Step(context.Background(), now)
	}); n != 0 {
		t.Errorf("%v allocations per check", n)
	}
}

type noConsumers struct{}

func (noConsumers) Consumers(context.Context, Shortage) (none signals.Consumption) { return none }
