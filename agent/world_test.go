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

// world is a node in a synctest bubble: pods hold memory, one may fill it.
type world struct {
	t        *testing.T
	capacity signals.Amount
	mu       sync.Mutex
	pods     []*worldPod
	looks    map[signals.Kind]int
	told     []*Decision
	saves    int

	killErr  error          // of every immediate kill
	killTold Status         // state of the report at that time
	least    signals.Amount // minimum that was available
	mute     bool           // the API server does not answer
	lingers  bool           // processes remain despite SIGKILL
	blind    func() bool    // memory is unreadable
	pids     signals.Amount // available; 0: not observed
	// off is the excess of the observation over the real value, unless pods were just measured:
	// late counters.
	off      func() signals.Amount
	measured time.Time
	measures time.Duration         // duration of measuring
	left     func() signals.Amount // of what pods may use; nil: not observed
	ending   time.Duration         // duration of a graceful end
	hurries  time.Duration         // duration of an escalated end
	finished int                   // number of calls of Finish

	disk      signals.Amount // available on nodefs before pods; 0: not observed
	waste     signals.Amount // freed by garbage collection
	collects  time.Duration  // duration of garbage collection
	collected int
	inodes    signals.Amount // available on nodefs before pods; 0: not observed

	outside func() signals.Amount // memory outside of pods
	fading  signals.Amount        // of pods without processes
	kept    limiter.Saved
}

type worldPod struct {
	signals.Pod
	memory   signals.Amount
	rate     signals.Amount // per second, from since to until
	since    time.Time
	until    time.Time // zero: unlimited
	then     signals.Amount
	unknown  bool
	undead   bool                                           // remains despite SIGKILL
	unlisted time.Time                                      // when it is no longer listed, though it runs
	polite   bool                                           // its eviction can be withdrawn
	asked    func(context.Context, Changes) (Killed, error) // its own graceful termination
	slips    time.Duration                                  // it ends by itself during the report, and its memory is freed after this delay
	disk     signals.Amount
	inodes   signals.Amount
	files    signals.Amount // tmpfs: the part of its memory that is freed later
	mounted  time.Duration  // that delay
	holder   Status         // it runs no process, and its memory is freed after this status
	removed  time.Duration  // delay of freed disk space after its end
}

func (p *worldPod) uses(now time.Time) signals.Amount {
	switch {
	case p.rate == 0 || now.Before(p.since):
		return p.memory
	case !p.until.IsZero() && !now.Before(p.until):
		return p.then
	}
	return p.memory + signals.Amount(float64(p.rate)*now.Sub(p.since).Seconds())
}

func (w *world) available() signals.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.capacity
	if w.outside != nil {
		left -= w.outside()
	}
	left -= w.fading
	for _, p := range w.pods {
		left -= p.uses(time.Now())
	}
	return left
}

func (w *world) add(name string, memory signals.Amount) *worldPod {
	p := &worldPod{Pod: signals.Pod{UID: "uid-" + name, Namespace: "default", Name: name}, memory: memory}
	w.pods = append(w.pods, p)
	return p
}

func (w *world) remove(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.UID == uid && p.removed > 0 {
			w.disk -= p.disk
			w.later(p.removed, func() { w.disk += p.disk })
		}
		if p.UID == uid && p.files > 0 {
			held := min(p.files, p.uses(time.Now()))
			w.fading += held
			w.later(p.mounted, func() { w.fading -= held })
		}
	}
	w.pods = slices.DeleteFunc(w.pods, func(p *worldPod) bool { return p.UID == uid })
}

// later changes the env after a while.
func (w *world) later(after time.Duration, change func()) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	})
}

func (w *world) Observe(into *signals.Observations, kind signals.Kind) {
	w.looks[kind]++
	w.least = min(w.least, w.available())
	seen := w.available()
	if w.off != nil && !w.measured.Equal(time.Now()) { // the time of a bubble stands still meanwhile
		seen += w.off()
	}
	into[signals.MemoryAvailable] = signals.Observed(seen, w.capacity, time.Now())
	if w.left != nil {
		into[signals.AllocatableMemoryAvailable] = signals.Observed(w.left(), w.capacity, time.Now())
	}
	if w.blind != nil && w.blind() {
		into[signals.MemoryAvailable] = signals.Unknown("it is dark")
	}
	if kind == signals.Periodic && w.pids > 0 {
		into[signals.PIDAvailable] = signals.Observed(w.pids, 1000, time.Now())
	}
	if kind == signals.Periodic && w.disk > 0 {
		into[signals.NodefsAvailable] = signals.Observed(w.room(), 100<<30, time.Now())
	}
	if kind == signals.Periodic && w.inodes > 0 {
		into[signals.NodefsInodesFree] = signals.Observed(w.inodesFree(), w.inodes, time.Now())
	}
}

// room returns the amount available on nodefs.
func (w *world) room() signals.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.disk
	for _, p := range w.pods {
		left -= p.disk
	}
	return left
}

func (w *world) inodesFree() signals.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.inodes
	for _, p := range w.pods {
		left -= p.inodes
	}
	return left
}

func (w *world) Collect(ctx context.Context, what []signals.Garbage, enough func(*signals.Observations) bool) []signals.Garbage {
	select {
	case <-time.After(w.collects):
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.collected++
	if len(what) > 0 {
		w.disk += w.waste
		w.waste = 0
	}
	w.mu.Unlock()
	var now signals.Observations
	w.Observe(&now, signals.Periodic)
	w.t.Logf("enough: %v", enough(&now))
	return what
}

func (w *world) Measure(context.Context) (candidates []signals.Candidate) {
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
				EphemeralStorage: signals.Of(signals.Bytes(p.disk)),
				Volumes: []signals.VolumeUsage{{Name: "data", FilesystemUsage: signals.FilesystemUsage{
					Bytes: signals.Of(signals.Bytes(p.disk)), Inodes: signals.Of(signals.Inodes(p.inodes))}}}}
		}
		candidates = append(candidates, c)
	}
	return candidates
}

func (w *world) Stored() (all []signals.Candidate) {
	took := w.measures
	w.measures = 0 // reads nothing
	defer func() { w.measures = took }()
	measured := w.measured
	defer func() { w.measured = measured }()
	return w.Measure(context.Background())
}

func (w *world) Refresh(context.Context)            {}
func (w *world) Checked(*Outcome, *eviction.Policy) {}
func (w *world) Report(d *Decision)                 { w.told = append(w.told, d) }
func (w *world) Consumers() []signals.Consumer {
	return []signals.Consumer{{Name: "cgroup daemon", Bytes: signals.Bytes(w.outside())}}
}
func (w *world) keep(s limiter.Saved) { w.kept = s }
func (w *world) Save(eviction.Saved)  { w.saves++ }

func (w *world) Victim(e *eviction.Eviction) (Victim, error) {
	return &worldVictim{w, e.Pod.UID, w.pod(e.Pod.UID)}, nil
}

func (w *world) pod(uid string) *worldPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[slices.IndexFunc(w.pods, func(p *worldPod) bool { return p.UID == uid })]
}

type worldVictim struct {
	w   *world
	uid string
	pod *worldPod
}

func (v *worldVictim) Immediate(ctx, telling, waiting context.Context, wait time.Duration) (Killed, error) {
	if v.pod.FromAPI && v.w.mute {
		<-telling.Done()
	}
	switch {
	case v.w.killErr != nil:
		return Killed{Status: v.w.killTold}, v.w.killErr
	case v.w.lingers || v.pod.undead:
		select {
		case <-ctx.Done():
		case <-waiting.Done():
		case <-time.After(wait):
		}
		return Killed{Processes: 1, ProcessesRemain: true}, nil
	case v.pod.holder != "":
		v.w.remove(v.uid)
		return Killed{Status: v.pod.holder, Unmounting: true}, nil
	case v.pod.slips > 0:
		v.w.fade(v.pod)
		return Killed{Status: StatusReported}, nil
	}
	v.w.remove(v.uid)
	return Killed{Processes: 1}, nil
}

// fade ends a pod with memory that is freed later.
func (w *world) fade(p *worldPod) {
	held := p.uses(time.Now())
	w.remove(p.UID)
	add := func(n signals.Amount) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fading += n
	}
	add(held)
	time.AfterFunc(p.slips, func() { add(-held) })
}

func (v *worldVictim) Graceful(ctx context.Context, grace time.Duration, change Changes) (Killed, error) {
	if v.pod.asked != nil {
		return v.pod.asked(ctx, change)
	}
	select {
	case <-time.After(min(grace, v.w.ending)):
	case <-change.Escalate:
		<-time.After(v.w.hurries)
	case <-change.Withdraw:
		if v.pod.polite {
			return Killed{Withdrawn: true}, nil
		}
		<-time.After(min(grace, v.w.ending))
	case <-ctx.Done():
		return Killed{}, ctx.Err()
	}
	v.w.remove(v.uid)
	return Killed{Processes: 1}, nil
}

func (v *worldVictim) Finish(ctx context.Context) (Killed, error) {
	v.w.finished++
	if v.pod.undead {
		<-ctx.Done()
		return Killed{Processes: 1, ProcessesRemain: true}, nil
	}
	v.w.remove(v.uid)
	return Killed{Processes: 1}, nil
}

// count returns the number of decisions with a verb.
func (w *world) count(v Verb) (n int) {
	for _, d := range w.told {
		if d.Decision == v {
			n++
		}
	}
	return n
}

func (w *world) evicted() (pods []string) {
	for _, d := range w.told {
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

// live runs an agent for a while in an env set up by the story.
func live(t *testing.T, d time.Duration, dryRun bool, thresholds []eviction.Threshold, story func(*world)) *world {
	t.Helper()
	return liveIn(t, d, Settings{}, eviction.Settings{Thresholds: thresholds}, func(w *world, p *Parts) {
		if dryRun {
			s := &toggle{}
			s.off.Store(true)
			p.Arming = s
		}
		story(w)
	})
}

// liveIn is live with other settings, or with parts set by the story.
func liveIn(t *testing.T, d time.Duration, settings Settings, policy eviction.Settings, story func(*world, *Parts)) *world {
	t.Helper()
	w := &world{t: t, capacity: 1 << 30, least: 1 << 30, looks: map[signals.Kind]int{}}
	settings.Period = 10 * time.Second
	if settings.MaxFillRate == 0 {
		settings.MaxFillRate = 4 << 30
	}
	synctest.Test(t, func(t *testing.T) {
		parts := Parts{Machine: eviction.New(newPolicy(t, policy)), Observer: w, Pods: w, Victims: w, Collector: w, Inventory: w, Reporter: w}
		story(w, &parts)
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		New(settings, parts).Run(ctx)
		synctest.Wait()
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
