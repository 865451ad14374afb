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
	"plimsoll.dev/plimsoll/restraint"
	"plimsoll.dev/plimsoll/signal"
)

const mib = 1 << 20

// A world is a node in a synctest bubble: pods hold memory, one may fill it.
type world struct {
	t        *testing.T
	capacity signal.Amount
	mu       sync.Mutex
	pods     []*worldPod
	looks    map[signal.Kind]int
	told     []*Decision
	saves    int

	killErr  error         // of every immediate kill
	killTold Status        // what the API server knows by then
	least    signal.Amount // that was ever seen available
	mute     bool          // the API server does not answer
	lingers  bool          // processes stay in spite of SIGKILL
	blind    func() bool   // memory can not be read
	pids     signal.Amount // available; 0: not observed
	// off is how much more is observed than there is, unless pods were just
	// measured: counters that are late.
	off      func() signal.Amount
	measured time.Time
	measures time.Duration        // how long measuring takes
	left     func() signal.Amount // of what pods may use; nil: not observed
	ending   time.Duration        // how long a graceful end takes
	hurries  time.Duration        // and how long one that is hurried
	finished int                  // how often one of those was finished

	disk      signal.Amount // available on nodefs before pods; 0: not observed
	waste     signal.Amount // what collecting gives back
	collects  time.Duration // how long that takes
	collected int
	inodes    signal.Amount // available on nodefs before pods; 0: not observed

	outside func() signal.Amount // memory that no pod holds
	fading  signal.Amount        // of a pod without processes
	kept    restraint.Saved
}

type worldPod struct {
	signal.Pod
	memory   signal.Amount
	rate     signal.Amount // per second, from since until until
	since    time.Time
	until    time.Time // zero: for ever
	then     signal.Amount
	unknown  bool
	undead   bool                                           // stays in spite of SIGKILL
	unlisted time.Time                                      // when nobody lists it any more, though it runs
	polite   bool                                           // its eviction can be withdrawn
	asked    func(context.Context, Changes) (Killed, error) // its own way to end gracefully
	slips    time.Duration                                  // it ends by itself while the API server is told, and what it held is back so much later
	disk     signal.Amount
	inodes   signal.Amount
	files    signal.Amount // in memory: a part of what it holds that comes back later
	mounted  time.Duration // so much later
	holder   Status        // it runs nothing, and what it holds comes back by this status
	removed  time.Duration // when its disk space comes back after its end
}

func (p *worldPod) uses(now time.Time) signal.Amount {
	switch {
	case p.rate == 0 || now.Before(p.since):
		return p.memory
	case !p.until.IsZero() && !now.Before(p.until):
		return p.then
	}
	return p.memory + signal.Amount(float64(p.rate)*now.Sub(p.since).Seconds())
}

func (w *world) available() signal.Amount {
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

func (w *world) add(name string, memory signal.Amount) *worldPod {
	p := &worldPod{Pod: signal.Pod{UID: "uid-" + name, Namespace: "default", Name: name}, memory: memory}
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

// later changes the world after a while.
func (w *world) later(after time.Duration, change func()) {
	time.AfterFunc(after, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	})
}

func (w *world) Observe(into *signal.Observations, kind signal.Kind) {
	w.looks[kind]++
	w.least = min(w.least, w.available())
	seen := w.available()
	if w.off != nil && !w.measured.Equal(time.Now()) { // a bubble's time stands still meanwhile
		seen += w.off()
	}
	into[signal.MemoryAvailable] = signal.Observed(seen, w.capacity, time.Now())
	if w.left != nil {
		into[signal.AllocatableMemoryAvailable] = signal.Observed(w.left(), w.capacity, time.Now())
	}
	if w.blind != nil && w.blind() {
		into[signal.MemoryAvailable] = signal.Unknown("it is dark")
	}
	if kind == signal.Regular && w.pids > 0 {
		into[signal.PIDAvailable] = signal.Observed(w.pids, 1000, time.Now())
	}
	if kind == signal.Regular && w.disk > 0 {
		into[signal.NodefsAvailable] = signal.Observed(w.room(), 100<<30, time.Now())
	}
	if kind == signal.Regular && w.inodes > 0 {
		into[signal.NodefsInodesFree] = signal.Observed(w.inodesFree(), w.inodes, time.Now())
	}
}

// room is what is available on nodefs.
func (w *world) room() signal.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.disk
	for _, p := range w.pods {
		left -= p.disk
	}
	return left
}

func (w *world) inodesFree() signal.Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.inodes
	for _, p := range w.pods {
		left -= p.inodes
	}
	return left
}

func (w *world) Collect(ctx context.Context, what []signal.Reclaimer, enough func(*signal.Observations) bool) []signal.Reclaimer {
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
	var now signal.Observations
	w.Observe(&now, signal.Regular)
	w.t.Logf("enough: %v", enough(&now))
	return what
}

func (w *world) Measure(context.Context) (candidates []signal.Candidate) {
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
		c := signal.Candidate{Pod: &p.Pod}
		if !p.unknown {
			c.Usage = &signal.Usage{Memory: signal.Of(signal.Bytes(p.uses(time.Now()))),
				EphemeralStorage: signal.Of(signal.Bytes(p.disk)),
				Volumes: []signal.VolumeUsage{{Name: "data", FilesystemUsage: signal.FilesystemUsage{
					Bytes: signal.Of(signal.Bytes(p.disk)), Inodes: signal.Of(signal.Inodes(p.inodes))}}}}
		}
		candidates = append(candidates, c)
	}
	return candidates
}

func (w *world) Stored() (all []signal.Candidate) {
	took := w.measures
	w.measures = 0 // it reads nothing
	defer func() { w.measures = took }()
	measured := w.measured
	defer func() { w.measured = measured }()
	return w.Measure(context.Background())
}

func (w *world) Refresh(context.Context)           {}
func (w *world) Looked(*Outcome, *eviction.Policy) {}
func (w *world) Report(d *Decision)                { w.told = append(w.told, d) }
func (w *world) Holders() []signal.Holder {
	return []signal.Holder{{Name: "cgroup daemon", Bytes: signal.Bytes(w.outside())}}
}
func (w *world) keep(s restraint.Saved) { w.kept = s }
func (w *world) Save(eviction.Saved)    { w.saves++ }

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

func (v *worldVictim) Immediate(ctx, telling context.Context, wait time.Duration) (Killed, error) {
	if v.pod.FromAPI && v.w.mute {
		<-telling.Done()
	}
	switch {
	case v.w.killErr != nil:
		return Killed{Status: v.w.killTold}, v.w.killErr
	case v.w.lingers || v.pod.undead:
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		return Killed{Processes: 1, Lingering: true}, nil
	case v.pod.holder != "":
		v.w.remove(v.uid)
		return Killed{Status: v.pod.holder, Unmounting: true}, nil
	case v.pod.slips > 0:
		v.w.fade(v.pod)
		return Killed{Status: StatusTold}, nil
	}
	v.w.remove(v.uid)
	return Killed{Processes: 1}, nil
}

// fade ends a pod, whose memory comes back later.
func (w *world) fade(p *worldPod) {
	held := p.uses(time.Now())
	w.remove(p.UID)
	add := func(n signal.Amount) {
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
	case <-change.Hurry:
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
		return Killed{Processes: 1, Lingering: true}, nil
	}
	v.w.remove(v.uid)
	return Killed{Processes: 1}, nil
}

// count is how often a verb was told.
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
		if d.Decision == Evicted || d.Decision == Terminating || d.Decision == WouldEvict {
			pods = append(pods, d.Pod)
		}
	}
	return pods
}

// thresholds of the tests: 100 MiB hard, and 300 MiB soft for a minute.
func hard() eviction.Threshold {
	return eviction.Threshold{Signal: signal.MemoryAvailable, Value: quantity(100 * mib)}
}

func soft() eviction.Threshold {
	return eviction.Threshold{Signal: signal.MemoryAvailable, Value: quantity(300 * mib), Grace: time.Minute}
}

func quantity(a signal.Amount) eviction.Value {
	return eviction.Value{Quantity: signal.Quantity{Value: a}}
}

var errRefused = errors.New("refused")

// live runs an agent for a while in a world made by a story.
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

// liveIn is live with other settings, or parts that the story makes.
func liveIn(t *testing.T, d time.Duration, settings Settings, policy eviction.Settings, story func(*world, *Parts)) *world {
	t.Helper()
	w := &world{t: t, capacity: 1 << 30, least: 1 << 30, looks: map[signal.Kind]int{}}
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
	s.MaxPodGracePeriod, s.TransitionPeriod, s.ReactionReserve = 60, 5*time.Minute, 500*time.Millisecond
	policy, err := eviction.NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}
