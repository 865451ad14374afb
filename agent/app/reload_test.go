package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/agent/recorder"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/internal/reload"
)

const gib = 1 << 30

// loaded is a node in virtual time, with pods that are evicted and come back. It implements the ports of an
// agent. Its PIDs are below their soft threshold all the time.
type loaded struct {
	random *rand.Rand

	mu        sync.Mutex
	pods      []signals.Pod // replaced, never changed
	created   int
	available signals.Amount
	policy    *eviction.Policy // of the last check
	evicted   []time.Time      // without those that were withdrawn
	soft      time.Time        // the soft eviction in flight
	passed    time.Time        // when the grace period of the PIDs had passed
	saved     limiter.Saved
}

func (l *loaded) Observe(into *signals.Observations, kind signals.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	into[signals.MemoryAvailable] = signals.Observed(l.available, 1024*gib, time.Now())
	into[signals.AllocatableMemoryAvailable] = into[signals.MemoryAvailable]
	if kind == signals.Periodic {
		into[signals.PIDAvailable] = signals.Observed(90, 1000, time.Now())
	}
}

func (l *loaded) Measure(context.Context) (all []signals.Candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.pods {
		all = append(all, signals.Candidate{Pod: &l.pods[i], Usage: &signals.Usage{Memory: signals.Of[signals.Bytes](100 * gib), MemoryRelief: signals.Of[signals.Bytes](100 * gib),
			Processes: signals.Of[signals.PIDs](200), Tasks: signals.Of[signals.PIDs](200)}})
	}
	return all
}

func (l *loaded) Stored() []signals.Candidate { return nil }

// Refresh changes the load, once per periodic check.
func (l *loaded) Refresh(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.available = signals.Amount(20+l.random.IntN(200)) * gib
	for len(l.pods) < 5 {
		l.created++
		l.pods = append(slices.Clone(l.pods), signals.Pod{UID: fmt.Sprintf("uid-%d", l.created), Namespace: fmt.Sprintf("ns-%d", l.created%3), Name: fmt.Sprintf("pod-%d", l.created), Owner: fmt.Sprintf("owner-%d", l.created%4), FromAPI: l.created%2 == 0})
	}
}

func (l *loaded) end(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods = slices.DeleteFunc(slices.Clone(l.pods), func(p signals.Pod) bool { return p.UID == uid })
	l.available += 100 * gib
}

func (l *loaded) Victim(e *eviction.Eviction) (agent.Victim, error) { return ending{l, e.Pod.UID}, nil }

type ending struct {
	l   *loaded
	uid string
}

func (v ending) Immediate(context.Context, context.Context, context.Context, time.Duration) (agent.EvictionResult, error) {
	v.l.end(v.uid)
	return agent.EvictionResult{Processes: 1}, nil
}

func (v ending) Graceful(ctx context.Context, grace time.Duration, change agent.Changes) (agent.EvictionResult, error) {
	select {
	case <-time.After(grace):
	case <-change.Escalate:
	case <-change.Withdraw:
		return agent.EvictionResult{Withdrawn: true}, nil
	case <-ctx.Done():
		return agent.EvictionResult{}, ctx.Err()
	}
	v.l.end(v.uid)
	return agent.EvictionResult{Processes: 1}, nil
}

func (v ending) Finish(context.Context) (agent.EvictionResult, error) {
	v.l.end(v.uid)
	return agent.EvictionResult{Processes: 1}, nil
}

func (l *loaded) Checked(o *agent.Outcome, p *eviction.Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.policy = p; l.passed.IsZero() && o.Verdict.GracePassed.Has(signals.PIDAvailable) {
		l.passed = o.Snapshot.At
	}
}

func (l *loaded) Report(d *agent.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch d.Decision {
	case agent.SoftEvicting:
		l.soft = d.Time
		fallthrough
	case agent.Evicted:
		l.evicted = append(l.evicted, d.Time)
	case agent.Withdrawn:
		l.evicted = slices.DeleteFunc(l.evicted, func(at time.Time) bool { return at.Equal(l.soft) })
	}
}

func (l *loaded) Save(eviction.Saved) {}

// now returns the thresholds of the last check.
func (l *loaded) now() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.policy.Thresholds)
}

// pidsGrace is the grace period of the threshold that no change touches.
const pidsGrace = 5 * time.Hour

// validText returns a valid configuration with random options that are live.
func validText(r *rand.Rand, period string) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	memory := 20 + r.IntN(120)
	return options.FileHead(config.Kind) + fmt.Sprintf("monitoringPeriod: %s\nevictionHard: {memory.available: %dGi}\n", period, memory) +
		fmt.Sprintf("evictionSoft: {pid.available: 100, memory.available: %dGi}\nevictionSoftGracePeriod: {pid.available: %s, memory.available: %ds}\n", memory+20, pidsGrace, 10+r.IntN(60)) +
		pick("", "evictionMinimumReclaim: {memory.available: 10Gi}\n") + pick("", "evictionMaxPodGracePeriod: 40\n") + pick("", "evictionsPerHour: 100\n", "evictionsPerHour: 400\n") +
		pick("maxIneffectiveEvictions: 0\n", "maxIneffectiveEvictions: 0\n", "maxIneffectiveEvictions: 9\n") + pick("", "ownerBackoff: 0s\n", "ownerBackoff: 10s\n") + pick("", "evictionChoice: kubelet\n") + pick("", "earlyEviction: never\n") +
		pick("", "maxFillRate: 8Gi\n") + pick("", "verbosity: 2\n") + pick("", "evictionPressureTransitionPeriod: 30s\n")
}

// spoil writes what must be refused, or removes the file.
func spoil(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	valid := validText(r, "10s")
	var err error
	switch r.IntN(7) {
	case 0:
		err = os.WriteFile(path, []byte(valid+"colour: red\n"), 0o600)
	case 1:
		err = os.WriteFile(path, []byte(valid+"evictionHard: {memory.available: soon}\n"), 0o600)
	case 2:
		err = os.WriteFile(path, []byte(validText(r, "20s")), 0o600) // needs a restart
	case 3:
		err = os.WriteFile(path, []byte(valid[:r.IntN(50)]), 0o600)
	case 4:
		err = os.WriteFile(path, []byte(valid+strings.Repeat("#\n", options.MaxFileBytes/2)), 0o600)
	case 5:
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		t.Error(err)
	}
}

// A thousand changes of the file, half of which must be refused, under load. The configuration in force is
// always the last valid one; the timer that no change touches loses no second; evictions of the last hour
// count, whatever the limits were; no goroutine is left, which would end the bubble with a deadlock,
// and no descriptor.
func TestReload_ThousandChangesUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	before := descriptors(t)
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 17))
		if err := os.WriteFile(path, []byte(validText(r, "10s")), 0o600); err != nil {
			t.Fatal(err)
		}
		source := config.NewSource(path, config.AddFlags(pflag.NewFlagSet("agent", pflag.ContinueOnError)))
		first, err := source.Load()
		if err != nil {
			t.Fatal(err)
		}
		applied := 0
		watch := reload.New(reload.Options[config.Agent]{Source: source, Current: first, Apply: func(*config.Agent) { applied++ }, Log: slog.New(slog.DiscardHandler)})
		rules := newPolicies(watch.Config, func() (signals.Layout, bool) { return signals.Single, true }, func() bool { return false }, func(*eviction.Policy) {}, slog.New(slog.DiscardHandler))
		l := &loaded{random: rand.New(rand.NewPCG(5, 19)), available: 500 * gib}
		begun := rules.current()
		a := agent.New(agent.Settings{Period: first.MonitoringPeriod, MaxFillRate: begun.MaxFillRate}, agent.Parts{Machine: eviction.New(begun.Policy), Observer: l, Pods: l, Victims: l, Inventory: l, Reporter: l,
			Rules: rules.current, Limiter: limiter.New(begun.Limits), LimiterSaved: func(s limiter.Saved) { l.mu.Lock(); defer l.mu.Unlock(); l.saved = s }})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { a.Run(ctx) })
		group.Go(func() { watch.Run(ctx) })

		inForce, valid, refused, started := first, 0, 0, time.Now()
		for n := range 1000 {
			<-time.After(time.Duration(r.IntN(4000)) * time.Millisecond)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if isValid := r.IntN(2) == 0; isValid {
				valid++
				text := validText(r, "10s")
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if inForce, err = source.Parse([]byte(text)); err != nil {
					t.Fatal(err)
				}
			} else {
				refused++
				spoil(t, r, path)
			}
			<-time.After(2*reload.Period + first.MonitoringPeriod)
			synctest.Wait()
			want, err := inForce.Policy(signals.Single)
			if err != nil {
				t.Fatal(err)
			}
			if got := l.now(); got != fmt.Sprint(want.Thresholds) {
				t.Fatalf("change %d: the agent decides by %s, want %v; %+v", n, got, want.Thresholds, watch.Status())
			}
			if watch.Config().EvictionsPerHour != inForce.EvictionsPerHour {
				t.Fatalf("change %d: another configuration is in force", n)
			}
		}
		ended := time.Now()
		cancel()
		group.Wait()
		if s := watch.Status(); s.Applied != valid || s.Refusals < refused*9/10 || s.Refusals > refused || applied < valid*9/10 {
			t.Errorf("%d valid and %d spoiled changes: %+v, applied %d", valid, refused, s, applied)
		}
		l.checkTimers(t, started, ended)
	})
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, before the changes %d", after, before)
	}
}

// checkTimers checks what must not depend on changes of the configuration.
func (l *loaded) checkTimers(t *testing.T, started, ended time.Time) {
	t.Helper()
	if passed := l.passed.Sub(started); passed < pidsGrace || passed > pidsGrace+10*time.Second {
		t.Errorf("the grace period of the PIDs had passed after %s, want %s", passed, pidsGrace)
	}
	within := func(times []time.Time) (n int) {
		for _, at := range times {
			if ended.Sub(at) < 59*time.Minute {
				n++
			}
		}
		return n
	}
	if counted, evicted := within(l.saved.Evictions), within(l.evicted); counted == 0 || counted != evicted {
		t.Errorf("the limiter counts %d evictions of the last hour, the agent has made %d", counted, evicted)
	}
	if len(l.evicted) < 200 {
		t.Errorf("%d evictions: the node is too quiet", len(l.evicted))
	}
}

// descriptors returns the number of open descriptors. Those of Go's poller are open from the first pipe on.
func descriptors(t *testing.T) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Rules are compiled once for each configuration and layout, and are the latest ones even if a layout
// returns.
func TestPolicies_CompiledPerConfiguration(t *testing.T) {
	parse := func(fields string) *config.Agent {
		c, err := config.ParseFile([]byte(options.FileHead(config.Kind) + fields))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now, layout, known, limits := parse("evictionsPerHour: 1\n"), signals.Single, true, true
	var prepared []*eviction.Policy
	p := newPolicies(func() *config.Agent { return now }, func() (signals.Layout, bool) { return layout, known }, func() bool { return limits },
		func(p *eviction.Policy) { prepared = append(prepared, p) }, slog.New(slog.DiscardHandler))
	first := p.current()
	if p.current() != first || first.Limits.PerHour != 1 || !first.Policy.StorageLimits || p.configOf(first.Policy) != now || p.published() != first.Policy {
		t.Errorf("%+v", first)
	}
	layout = signals.Split
	second := p.current()
	if known = false; second == first || second.Policy.Layout != signals.Split || p.current() != second {
		t.Errorf("layout %s", second.Policy.Layout)
	}
	if layout, known = signals.Single, true; p.current() != first {
		t.Error("the rules were compiled again for the same layout")
	}
	limits = false
	if p.current().Policy.StorageLimits {
		t.Error("local-storage limits are left to the kubelet")
	}
	limits, now = true, parse("evictionsPerHour: 2\nverbosity: 2\nmaxFillRate: 1Gi\n")
	changed := p.current()
	if changed == first || changed.Limits.PerHour != 2 || !changed.LogChecks || changed.MaxFillRate != 1<<30 || p.configOf(changed.Policy) != now || p.configOf(first.Policy) != nil {
		t.Errorf("%+v", changed)
	}
	if len(prepared) != 5 || prepared[4] != changed.Policy {
		t.Errorf("%d policies were prepared", len(prepared))
	}
}

// The configuration that the loop has adopted is recorded once, with the first check by it.
func TestFlightRecorder_RecordsAdoptedConfiguration(t *testing.T) {
	before, after := config.NewAgent(), config.NewAgent()
	after.EvictionsPerHour = 7
	after.Origins["evictionsPerHour"] = options.Origin{Where: "evictionsPerHour", Text: "7"}
	policyOf := func(c *config.Agent) *eviction.Policy {
		p, err := c.Policy(signals.Single)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	q, now := &entries{}, time.Now()
	old, adopted, pending := policyOf(before), policyOf(after), policyOf(before)
	r := &flightRecorder{Recorder: recorder.New(q, now), usage: &usageRecorder{}, node: &node{}, config: before, policy: old, log: slog.New(slog.DiscardHandler),
		configOf: func(p *eviction.Policy) *config.Agent {
			return map[*eviction.Policy]*config.Agent{adopted: after}[p]
		}}
	for i, p := range []*eviction.Policy{old, pending, adopted, adopted} {
		r.Record(&agent.Outcome{Snapshot: &signals.Snapshot{At: now.Add(time.Duration(i) * time.Second)}}, &agent.Checker{Machine: eviction.New(p), Trace: &agent.Trace{}})
	}
	var got []string
	for _, e := range q.all {
		var fields struct{ EvictionsPerHour string }
		if e.Config != nil {
			if err := json.Unmarshal(e.Config, &fields); err != nil {
				t.Error(err)
			}
		}
		got = append(got, fields.EvictionsPerHour)
	}
	if want := []string{"", "", "7", ""}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// entries implements recorder.Queue.
type entries struct {
	next ring.Entry
	all  []ring.Entry
}

func (q *entries) Next() *ring.Entry {
	q.next = ring.Entry{Check: recording.Check{}}
	return &q.next
}
func (q *entries) Commit(time.Time, bool) { q.all = append(q.all, q.next) }
func (q *entries) Skip()                  {}
func (q *entries) MeasurementsWait() bool { return false }
