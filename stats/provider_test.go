package stats

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// fakeRuntime is a runtime with answers set by a test.
type fakeRuntime struct {
	pods       func(context.Context) ([]cri.PodStats, error)
	containers func(context.Context) ([]cri.ContainerStats, error)
}

func (p fakeRuntime) PodStats(ctx context.Context) ([]cri.PodStats, error) { return p.pods(ctx) }

func (p fakeRuntime) ContainerStats(ctx context.Context) ([]cri.ContainerStats, error) {
	if p.containers == nil {
		return nil, cri.ErrUnimplemented
	}
	return p.containers(ctx)
}

func known(v int64) cri.Used { return cri.Used{Value: v, Known: true} }

func memoryOf(v signals.Bytes) signals.Measured[signals.Bytes] { return signals.Of(v) }

// usageOf returns the current usage of one pod by the provider.
func usageOf(p Provider, uid string) *signals.Usage {
	return p.Measure([]signals.Pod{{UID: uid}}, nil)[0].Usage
}

func openCRI(t *testing.T, r Runtime, o Sampling) *CRI {
	t.Helper()
	c := OpenCRI(r, o)
	t.Cleanup(c.Close)
	synctest.Wait() // the first sample
	return c
}

// pass advances the time and waits until all goroutines block.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestCRI_ExpiresOldSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		var samples []time.Time
		var fails atomic.Bool
		r := fakeRuntime{pods: func(context.Context) ([]cri.PodStats, error) {
			if fails.Load() {
				return nil, gone
			}
			samples = append(samples, time.Now())
			return []cri.PodStats{{UID: "a", Time: time.Now(), WorkingSet: known(7), Processes: known(3)}}, nil
		}, containers: func(context.Context) ([]cri.ContainerStats, error) { return nil, gone }}
		c := openCRI(t, r, Sampling{})
		start := time.Now()
		want := &signals.Usage{Time: start, Memory: memoryOf(7), Processes: signals.Of[signals.PIDs](3)}
		if diff := cmp.Diff(want, usageOf(c, "a")); diff != "" || c.Err() != nil {
			t.Errorf("%s%v", diff, c.Err())
		}
		if u := usageOf(c, "b"); u != nil {
			t.Errorf("got usage %+v of a pod that is missing in the sample", u)
		}
		pass(10*time.Second + time.Millisecond)
		fails.Store(true)
		pass(999 * time.Millisecond)
		if len(samples) != 2 || samples[1].Sub(start) != 10*time.Second {
			t.Errorf("samples at %v", samples)
		}
		if u := usageOf(c, "a"); u == nil || u.Time != samples[1] || c.Err() != nil {
			t.Errorf("second sample: %+v, %v", u, c.Err())
		}
		pass(19*time.Second - 2*time.Millisecond)
		if u := usageOf(c, "a"); u == nil || u.Time != samples[1] || !errors.Is(c.Err(), gone) {
			t.Errorf("sample just below the maximum age: %+v, %v", u, c.Err())
		}
		pass(3 * time.Millisecond)
		if u := usageOf(c, "a"); u != nil || !errors.Is(c.Err(), gone) {
			t.Errorf("sample above the maximum age: %+v, %v", u, c.Err())
		}
		fails.Store(false)
		pass(10 * time.Second)
		if u := usageOf(c, "a"); u == nil || c.Err() != nil {
			t.Errorf("after the next sample: %+v, %v", u, c.Err())
		}
	})
}

// TestCRI_SamplesOnRequest checks that a measurement or its preparation requests a newer
// sample, at most one per second.
func TestCRI_SamplesOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := 0
		c := openCRI(t, fakeRuntime{pods: func(context.Context) ([]cri.PodStats, error) { samples++; return nil, nil }}, Sampling{})
		expectSamples := func(what string, want int, times ...func()) {
			t.Helper()
			for _, f := range times {
				f()
			}
			synctest.Wait()
			if samples != want {
				t.Errorf("%s: %d samples, want %d", what, samples, want)
			}
		}
		measure, prepare := func() { c.Measure(nil, nil) }, func() { c.Prepare(nil) }
		expectSamples("right after a sample", 1, measure, prepare)
		pass(time.Second)
		expectSamples("a second later", 2, prepare, measure, prepare)
		pass(time.Second)
		expectSamples("another second later", 3, func() { c.MeasureMemory(nil, nil) })
	})
}

func TestCRI_NeverWaitsForHangingRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries := 0
		c := openCRI(t, fakeRuntime{pods: func(ctx context.Context) ([]cri.PodStats, error) {
			queries++
			<-ctx.Done()
			return nil, cri.ErrTimeout
		}}, Sampling{})
		begun := time.Now()
		if u := usageOf(c, "a"); u != nil || c.Err() == nil {
			t.Errorf("before the first sample: %+v, %v", u, c.Err())
		}
		if c.Prepare(nil); time.Since(begun) != 0 {
			t.Errorf("Prepare waited for %v", time.Since(begun))
		}
		// Queries of 10 s begin at 0, 20, 50, 100, 170 and 240 s: the runtime completes abandoned ones too.
		for pass(time.Millisecond); time.Since(begun) < 5*time.Minute; pass(time.Second) {
			usageOf(c, "a") // each measurement requests a sample
		}
		if !errors.Is(c.Err(), cri.ErrTimeout) || !strings.Contains(c.Err().Error(), "follows after 1m0s") || queries != 6 {
			t.Errorf("after 5 minutes: %v, %d queries, want 6", c.Err(), queries)
		}
	})
}

func TestCRI_RejectsInvalidSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		inside := []cri.ContainerStats{{ID: "1", Name: "app", Time: now, WorkingSet: known(1 << 40)}}
		r := fakeRuntime{pods: func(context.Context) ([]cri.PodStats, error) {
			return []cri.PodStats{
				{UID: "fits", Time: now, WorkingSet: known(1 << 30), Processes: known(1 << 22)},
				{UID: "more than the machine", Time: now, WorkingSet: known(1<<30 + 1), Processes: known(2)},
				{UID: "negative", Time: now, WorkingSet: known(-1), Processes: known(-1)},
				{UID: "too many", Time: now, WorkingSet: known(1), Processes: known(1<<22 + 1)},
				{UID: "inside", Time: now, WorkingSet: known(1), Processes: known(1), Containers: inside},
				{UID: "unreported", Time: now},
				{UID: "old", Time: now.Add(-21 * time.Second), WorkingSet: known(1)},
				{UID: "future", Time: now.Add(2 * time.Second), WorkingSet: known(1)},
				{UID: "no time", WorkingSet: known(1)},
			}, nil
		}}
		c := openCRI(t, r, Sampling{Capacity: 1 << 30})
		one := signals.Of[signals.PIDs](1)
		for uid, want := range map[string]*signals.Usage{
			"fits":                  {Time: now, Memory: memoryOf(1 << 30), Processes: signals.Of[signals.PIDs](1 << 22)},
			"more than the machine": {Time: now, Processes: signals.Of[signals.PIDs](2)},
			"negative":              {Time: now},
			"too many":              {Time: now, Memory: memoryOf(1)},
			"inside":                {Time: now, Memory: memoryOf(1), Processes: one, Containers: []signals.ContainerUsage{{Name: "app"}}},
			"unreported":            nil,
			"old":                   nil,
			"future":                nil,
			"no time":               nil,
		} {
			if diff := cmp.Diff(want, usageOf(c, uid), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", uid, diff)
			}
		}
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "it can not use") {
			t.Errorf("got error %v, want one for the invalid values", err)
		}
	})
}

// TestCRI_AddsUpContainerStats checks that container stats replace missing or invalid pod stats.
func TestCRI_AddsUpContainerStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		earlier := now.Add(-time.Second)
		containers := []cri.ContainerStats{
			{ID: "1", Name: "app", PodUID: "a", Time: now, WorkingSet: known(5)},
			{ID: "2", Name: "side", PodUID: "a", Time: earlier, WorkingSet: known(6)},
			{ID: "3", Name: "ended", PodUID: "a"},
			{ID: "4", Name: "app", PodUID: "b", Time: now, WorkingSet: known(5)},
			{ID: "5", Name: "side", PodUID: "b", Time: now},
			{ID: "6", Name: "no pod", Time: now, WorkingSet: known(5)},
		}
		broken := errors.New("a sandbox is broken")
		for _, podsErr := range []error{cri.ErrUnimplemented, broken} {
			c := openCRI(t, fakeRuntime{
				pods:       func(context.Context) ([]cri.PodStats, error) { return nil, podsErr },
				containers: func(context.Context) ([]cri.ContainerStats, error) { return containers, nil },
			}, Sampling{})
			want := &signals.Usage{Time: earlier, Memory: memoryOf(11), Containers: []signals.ContainerUsage{
				{Name: "app", Memory: memoryOf(5)}, {Name: "side", Memory: memoryOf(6)}}}
			if diff := cmp.Diff(want, usageOf(c, "a")); diff != "" {
				t.Error(diff)
			}
			if b := usageOf(c, "b"); b == nil || b.Memory.Known || b.Memory.Value != 0 || len(b.Containers) != 2 {
				t.Errorf("sum with an unknown part: %+v", b)
			}
			if wantErr := podsErr == broken; wantErr != errors.Is(c.Err(), broken) || !wantErr && c.Err() != nil {
				t.Errorf("got error %v after %v", c.Err(), podsErr)
			}
		}
	})
}

// TestCRI_UsesValidPartOfAnswer checks that the valid part of an answer is used.
func TestCRI_UsesValidPartOfAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		c := openCRI(t, fakeRuntime{pods: func(context.Context) ([]cri.PodStats, error) {
			return []cri.PodStats{
				{UID: "a", SandboxID: "new", Time: now, WorkingSet: known(7)},
				{UID: "a", SandboxID: "old", Time: now.Add(-time.Second), WorkingSet: known(9)},
			}, cri.ErrImplausible
		}}, Sampling{})
		if u := usageOf(c, "a"); u == nil || u.Memory != memoryOf(7) || !errors.Is(c.Err(), cri.ErrImplausible) {
			t.Errorf("%+v, %v", u, c.Err())
		}
	})
}

// fakeProvider is a provider that measures every pod but one.
type fakeProvider struct {
	calls []string
	err   error
}

func (s *fakeProvider) record(call string, pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	s.calls = append(s.calls, call)
	for i := range pods {
		c := signals.Candidate{Pod: &pods[i]}
		if pods[i].UID != "nowhere" {
			c.Usage = &signals.Usage{Memory: memoryOf(1), Processes: signals.Of[signals.PIDs](1)}
		}
		into = append(into, c)
	}
	return into
}

func (s *fakeProvider) Prepare([]signals.Pod) { s.calls = append(s.calls, "prepare") }
func (s *fakeProvider) Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return s.record("measure", pods, into)
}
func (s *fakeProvider) MeasureMemory(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return s.record("memory", pods, into)
}
func (s *fakeProvider) Err() error { return s.err }
func (s *fakeProvider) Close()     { s.calls = append(s.calls, "close") }

func TestCRI_FillsGapsWithOtherProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		other := &fakeProvider{err: errors.New("other")}
		c := openCRI(t, fakeRuntime{pods: func(context.Context) ([]cri.PodStats, error) {
			return []cri.PodStats{
				{UID: "complete", Time: now, WorkingSet: known(7), Processes: known(7)},
				{UID: "memory", Time: now, WorkingSet: known(7)},
				{UID: "absurd", Time: now, WorkingSet: known(1 << 61), Processes: known(7)},
			}, nil
		}}, Sampling{Capacity: 1 << 40, Fallback: other})
		measured := func(measure func([]signals.Pod, []signals.Candidate) []signals.Candidate, uids ...string) (got []signals.Bytes) {
			pods := make([]signals.Pod, len(uids))
			for i := range uids {
				pods[i].UID = uids[i]
			}
			for i, c := range measure(pods, make([]signals.Candidate, 1))[1:] {
				if c.Pod != &pods[i] {
					t.Errorf("candidate %d has another pod", i)
				}
				if c.Usage == nil {
					got = append(got, -1)
					continue
				}
				got = append(got, c.Usage.Memory.Value)
			}
			return got
		}
		for _, tc := range []struct{ got, want []signals.Bytes }{
			{measured(c.Measure, "complete"), []signals.Bytes{7}},
			{measured(c.MeasureMemory, "memory", "complete"), []signals.Bytes{7, 7}},
			{measured(c.Measure, "complete", "memory"), []signals.Bytes{7, 1}},
			{measured(c.MeasureMemory, "absurd", "new", "nowhere", "complete"), []signals.Bytes{1, 1, -1, 7}},
		} {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Error(diff)
			}
		}
		c.Prepare(nil)
		c.Close()
		if got := strings.Join(other.calls, " "); got != "measure memory prepare" {
			t.Errorf("calls of the other provider: %s", got)
		}
	})
}

func TestCRI_MeasureAllocatesNothing(t *testing.T) {
	now := time.Now()
	inside := []cri.ContainerStats{{ID: "1", Name: "app", Time: now, WorkingSet: known(1)}, {ID: "2", Name: "side", Time: now, WorkingSet: known(1)}}
	sampled := make(chan struct{}, 1)
	c := OpenCRI(fakeRuntime{pods: func(context.Context) ([]cri.PodStats, error) {
		defer func() { sampled <- struct{}{} }()
		return []cri.PodStats{{UID: "a", Time: now, WorkingSet: known(2), Processes: known(1), Containers: inside}}, nil
	}}, Sampling{Period: time.Hour})
	defer c.Close()
	<-sampled
	pods := []signals.Pod{{UID: "a"}, {UID: "b"}}
	into := c.Measure(pods, nil)
	if allocs := testing.AllocsPerRun(100, func() { into = c.Measure(pods, into[:0]) }); allocs != 0 {
		t.Errorf("Measure allocates %v times", allocs)
	}
}
