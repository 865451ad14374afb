package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

const mib = 1 << 20

// env is a node in a synctest bubble: pods hold memory, one may fill it.
type env struct {
	t         *testing.T
	capacity  signals.Amount
	mu        sync.Mutex
	pods      []*envPod
	checks    map[signals.Kind]int
	reported  []*Decision
	saves     int
	explained []string // explanations of the evictions that were tried

	killErr         error          // of every immediate kill
	killStatus      Status         // state of the report at that time
	minAvailable    signals.Amount // minimum observed
	serverHangs     bool           // the API server does not answer
	processesRemain bool           // processes remain despite SIGKILL
	unreadable      func() bool    // memory is unreadable
	pids            signals.Amount // available; 0: not observed
	// off is the excess of the observation over the real value, unless pods were just measured:
	// late counters.
	off          func() signals.Amount
	measured     time.Time
	measures     time.Duration         // duration of measuring
	left         func() signals.Amount // of what pods may use; nil: not observed
	ending       time.Duration         // duration of a graceful end
	escalatedEnd time.Duration         // duration of an escalated end
	finished     int                   // number of calls of Finish

	disk       signals.Amount // available on nodefs before pods; 0: not observed
	diskSilent bool           // it does not answer
	garbage    signals.Amount // freed by garbage collection
	collects   time.Duration  // duration of garbage collection
	collected  int
	enough     []bool         // whether each collection freed what its thresholds need
	inodes     signals.Amount // available on nodefs before pods; 0: not observed

	outside   func() signals.Amount     // memory outside of pods
	consumers func() []signals.Consumer // of the exhausted resource
	searches  time.Duration             // duration of a search for consumers
	shortages []Shortage                // of each search
	freeing   signals.Amount            // of pods without processes
	saved     limiter.Saved
	limits    limiter.Policy // of the limiter, if there is one
}

type envPod struct {
	signals.Pod
	memory           signals.Amount
	cache            signals.Amount // the part of it that is page cache
	rate             signals.Amount // per second, from since to until
	since            time.Time
	until            time.Time // zero: unlimited
	then             signals.Amount
	unknown          bool
	unkillable       bool                                                   // remains despite SIGKILL
	unlisted         time.Time                                              // when it is no longer listed, though it runs
	withdrawable     bool                                                   // its eviction can be withdrawn
	asked            func(context.Context, Changes) (EvictionResult, error) // its own graceful termination
	selfExit         time.Duration                                          // it ends by itself during the report, and its memory is freed after this delay
	disk             signals.Amount
	dead             signals.Amount // layers of dead containers
	inodes           signals.Amount
	processes        signals.PIDs
	tasks            signals.PIDs   // threads included; 0: not measured
	files            signals.Amount // tmpfs: the part of its memory that is freed later
	mounted          time.Duration  // that delay
	status           Status         // of its kill
	withoutProcesses Status         // it runs no process, and its memory is freed after this status
	removed          time.Duration  // delay of freed disk space after its end
}

func (p *envPod) uses(now time.Time) signals.Amount {
	switch {
	case p.rate == 0 || now.Before(p.since):
		return p.memory
	case !p.until.IsZero() && !now.Before(p.until):
		return p.then
	}
	return p.memory + signals.Amount(float64(p.rate)*now.Sub(p.since).Seconds())
}

func (w *env) available() signals.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.capacity
	if w.outside != nil {
		left -= w.outside()
	}
	left -= w.freeing
	for _, p := range w.pods {
		left -= p.uses(time.Now())
	}
	return left
}

func (w *env) add(name string, memory signals.Amount) *envPod {
	p := &envPod{Pod: signals.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Volumes: []signals.Volume{{Name: "data", Local: true}}}, memory: memory}
	w.pods = append(w.pods, p)
	return p
}

func (w *env) remove(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.UID == uid && p.removed > 0 {
			w.disk -= p.disk
			w.later(p.removed, func() { w.disk += p.disk })
		}
		if p.UID == uid && p.files > 0 {
			held := min(p.files, p.uses(time.Now()))
			w.freeing += held
			w.later(p.mounted, func() { w.freeing -= held })
		}
	}
	w.pods = slices.DeleteFunc(w.pods, func(p *envPod) bool { return p.UID == uid })
}

// later changes the env after a while.
func (w *env) later(after time.Duration, change func()) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	})
}

// cache returns the page cache of all pods.
func (w *env) cache() (sum signals.Amount) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		sum += p.cache
	}
	return sum
}

func (w *env) Observe(into *signals.Observations, kind signals.Kind) {
	seen := w.available()
	// A garbage collection observes beside the loop.
	w.mu.Lock()
	w.checks[kind]++
	w.minAvailable = min(w.minAvailable, seen)
	w.mu.Unlock()
	if w.off != nil && !w.measured.Equal(time.Now()) { // the time of a bubble stands still meanwhile
		seen += w.off()
	}
	into[signals.MemoryAvailable] = signals.Observed(seen, w.capacity, time.Now())
	into[signals.MemoryAvailable].Cache = w.cache()
	if w.left != nil {
		into[signals.AllocatableMemoryAvailable] = signals.Observed(w.left(), w.capacity, time.Now())
	}
	if w.unreadable != nil && w.unreadable() {
		into[signals.MemoryAvailable] = signals.Unknown("unreadable")
	}
	if kind != signals.Periodic {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pids > 0 {
		into[signals.PIDAvailable] = signals.Observed(w.pids, 1000, time.Now())
	}
	if w.disk > 0 {
		into[signals.NodefsAvailable] = signals.Observed(w.room(), 100<<30, time.Now())
		if w.diskSilent {
			into[signals.NodefsAvailable] = signals.Unknown("no answer")
		}
	}
	if w.inodes > 0 {
		into[signals.NodefsInodesFree] = signals.Observed(w.remaining(w.inodes, func(p *envPod) signals.Amount { return p.inodes }), w.inodes, time.Now())
	}
}

// room returns the amount available on nodefs. It needs the lock, as remaining does.
func (w *env) room() signals.Amount {
	return w.remaining(w.disk, func(p *envPod) signals.Amount { return p.disk + p.dead })
}

// remaining returns what the pods leave of a total.
func (w *env) remaining(total signals.Amount, usage func(*envPod) signals.Amount) signals.Amount {
	for _, p := range w.pods {
		total -= usage(p)
	}
	return total
}

func (w *env) Collect(ctx context.Context, what []signals.Garbage, enough func(*signals.Observations) bool) []signals.Garbage {
	select {
	case <-time.After(w.collects):
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.collected++
	if len(what) > 0 {
		w.disk += w.garbage
		w.garbage = 0
	}
	w.mu.Unlock()
	var now signals.Observations
	w.Observe(&now, signals.Periodic)
	done := enough(&now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enough = append(w.enough, done)
	return what
}

func (w *env) Measure(context.Context) (candidates []signals.Candidate) {
	if w.measures > 0 {
		<-time.After(w.measures)
	}
	w.measured = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if !p.unlisted.IsZero() && time.Now().After(p.unlisted) {
			continue
		}
		c := signals.Candidate{Pod: &p.Pod}
		if !p.unknown {
			c.Usage = &signals.Usage{Memory: signals.Of(signals.Bytes(p.uses(time.Now()))),
				EphemeralStorage: signals.Of(signals.Bytes(p.disk)), Processes: signals.Of(p.processes), Tasks: signals.Measured[signals.PIDs]{Value: p.tasks, Known: p.tasks > 0},
				Volumes: []signals.VolumeUsage{{Name: "data", FilesystemUsage: signals.FilesystemUsage{
					Bytes: signals.Of(signals.Bytes(p.disk)), Inodes: signals.Of(signals.Inodes(p.inodes))}}},
				OtherLayers: signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(p.dead))}}
			if p.files > 0 {
				c.Usage.MemoryFiles = signals.Of(signals.Bytes(p.files))
			}
			if p.cache > 0 {
				c.Usage.MemoryRelief = signals.Of(signals.Bytes(p.uses(time.Now()) - p.cache))
			}
		}
		candidates = append(candidates, c)
	}
	return candidates
}

func (w *env) Stored() (all []signals.Candidate) {
	took := w.measures
	w.measures = 0 // reads nothing
	defer func() { w.measures = took }()
	measured := w.measured
	defer func() { w.measured = measured }()
	return w.Measure(context.Background())
}

func (w *env) Refresh(context.Context)            {}
func (w *env) Checked(*Outcome, *eviction.Policy) {}
func (w *env) Report(d *Decision)                 { w.reported = append(w.reported, d) }

// Consumers implements Consumers: the daemon, or those of the test.
func (w *env) Consumers(ctx context.Context, of Shortage) (found signals.Consumption) {
	w.mu.Lock()
	w.shortages = append(w.shortages, of)
	w.mu.Unlock()
	select {
	case <-time.After(w.searches):
	case <-ctx.Done():
		found.Unmeasured = []string{"the search was ended"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.consumers != nil:
		found.Largest = w.consumers()
	case w.outside != nil:
		found.Largest = []signals.Consumer{{Name: "cgroup daemon", Kind: signals.ConsumerCgroup, Amount: w.outside()}}
	}
	return found
}
func (w *env) saveLimiter(s limiter.Saved) { w.saved = s }
func (w *env) Save(eviction.Saved)         { w.saves++ }

func (w *env) Victim(e *eviction.Eviction) (Victim, error) {
	w.explained = append(w.explained, e.Explanation)
	return &envVictim{w, e.Pod.UID, w.pod(e.Pod.UID)}, nil
}

func (w *env) pod(uid string) *envPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[slices.IndexFunc(w.pods, func(p *envPod) bool { return p.UID == uid })]
}

type envVictim struct {
	w   *env
	uid string
	pod *envPod
}

func (v *envVictim) Immediate(ctx, reporting, waiting context.Context, wait time.Duration) (EvictionResult, error) {
	if v.pod.FromAPI && v.w.serverHangs {
		<-reporting.Done()
	}
	switch {
	case v.w.killErr != nil:
		return EvictionResult{Status: v.w.killStatus}, v.w.killErr
	case v.w.processesRemain || v.pod.unkillable:
		select {
		case <-ctx.Done():
		case <-waiting.Done():
		case <-time.After(wait):
		}
		return EvictionResult{Processes: 1, ProcessesRemain: true}, nil
	case v.pod.withoutProcesses != "":
		v.w.remove(v.uid)
		return EvictionResult{Status: v.pod.withoutProcesses, Unmounting: true}, nil
	case v.pod.selfExit > 0:
		v.w.exitDuringReport(v.pod)
		return EvictionResult{Status: StatusReported}, nil
	}
	v.w.remove(v.uid)
	return EvictionResult{Processes: 1, Status: v.pod.status}, nil
}

// fade ends a pod with memory that is freed later.
func (w *env) exitDuringReport(p *envPod) {
	held := p.uses(time.Now())
	w.remove(p.UID)
	add := func(n signals.Amount) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.freeing += n
	}
	add(held)
	time.AfterFunc(p.selfExit, func() { add(-held) })
}

func (v *envVictim) Graceful(ctx context.Context, grace time.Duration, change Changes) (EvictionResult, error) {
	if v.pod.asked != nil {
		return v.pod.asked(ctx, change)
	}
	select {
	case <-time.After(min(grace, v.w.ending)):
	case <-change.Escalate:
		<-time.After(v.w.escalatedEnd)
	case <-change.Withdraw:
		if v.pod.withdrawable {
			return EvictionResult{Withdrawn: true}, nil
		}
		<-time.After(min(grace, v.w.ending))
	case <-ctx.Done():
		return EvictionResult{}, ctx.Err()
	}
	v.w.remove(v.uid)
	return EvictionResult{Processes: 1, Status: v.pod.status}, nil
}

func (v *envVictim) Finish(ctx context.Context) (EvictionResult, error) {
	v.w.finished++
	if v.pod.unkillable {
		<-ctx.Done()
		return EvictionResult{Processes: 1, ProcessesRemain: true}, nil
	}
	v.w.remove(v.uid)
	return EvictionResult{Processes: 1, Status: v.pod.status}, nil
}

// count returns the number of decisions with a verb.
func (w *env) count(v Verb) (n int) {
	for _, d := range w.reported {
		if d.Decision == v {
			n++
		}
	}
	return n
}

func (w *env) evicted() (pods []string) {
	for _, d := range w.reported {
		if d.Decision == Evicted || d.Decision == SoftEvicting || d.Decision == WouldEvict {
			pods = append(pods, d.Pod)
		}
	}
	return pods
}

// hard and soft are the thresholds of the tests: 100 MiB hard, and 300 MiB soft for a minute.
func hard() eviction.Threshold {
	return eviction.Threshold{Signal: signals.MemoryAvailable, Value: quantity(100 * mib)}
}

func soft() eviction.Threshold {
	return eviction.Threshold{Signal: signals.MemoryAvailable, Value: quantity(300 * mib), Grace: time.Minute}
}

func quantity(a signals.Amount) eviction.Value {
	return eviction.Value{Quantity: signals.Quantity{Value: a}}
}

var errRefused = errors.New("refused")

// live runs an agent for a while in an env prepared by setup.
func live(t *testing.T, d time.Duration, dryRun bool, thresholds []eviction.Threshold, setup func(*env)) *env {
	t.Helper()
	return liveIn(t, d, Settings{}, eviction.Settings{Thresholds: thresholds}, func(w *env, p *Parts) {
		if dryRun {
			s := &toggle{}
			s.off.Store(true)
			p.Arming = s
		}
		setup(w)
	})
}

// liveIn is live with other settings, or with parts that setup may replace.
func liveIn(t *testing.T, d time.Duration, settings Settings, policy eviction.Settings, setup func(*env, *Parts)) *env {
	t.Helper()
	w := &env{t: t, capacity: 1 << 30, minAvailable: 1 << 30, checks: map[signals.Kind]int{}}
	settings.Period = 10 * time.Second
	if settings.MaxFillRate == 0 {
		settings.MaxFillRate = 4 << 30
	}
	synctest.Test(t, func(t *testing.T) {
		parts := Parts{Machine: eviction.New(newPolicy(t, policy)), Observer: w, Pods: w, Victims: w, Collector: w, Inventory: w, Reporter: w}
		setup(w, &parts)
		story := record(&parts, w.limits)
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		New(settings, parts).Run(ctx)
		synctest.Wait()
		story.repeat(t)
	})
	return w
}

func newPolicy(t *testing.T, s eviction.Settings) *eviction.Policy {
	t.Helper()
	s.MaxPodGracePeriod, s.TransitionPeriod, s.EarlyEvictionHorizon = 60, 5*time.Minute, 500*time.Millisecond
	policy, err := eviction.NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// rulesOf returns the rules of a policy without limits.
func rulesOf(p *eviction.Policy) *Rules { return &Rules{Policy: p, MaxFillRate: 4 << 30} }
