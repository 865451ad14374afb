package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/agent/recorder"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// world is a node in virtual time with pods that grow, end, are deleted and come back. An agent that
// records watches it, and is restarted.
type world struct {
	random *rand.Rand
	config *config.Agent
	dir    string

	mu       sync.Mutex
	pods     []signals.Pod // replaced, never changed
	usage    map[string]*podLoad
	garbage  signals.Amount
	outside  signals.Amount
	layout   signals.Layout
	limits   bool
	blind    bool // memory is unreadable
	next     int
	measured []signals.Candidate

	saved    eviction.Saved
	limited  limiter.Saved
	lines    []string // of the decision log
	evicted  int
	recorder *recorder.Recorder
	crowd    bool // pods are small, and many grow together

	reconfigures bool // the configuration changes while an agent runs
	reconfigured int
	effective    map[*eviction.Policy][]byte // the configuration that each policy is made of
}

type podLoad struct {
	memory, cache, rate, disk, dead, filling signals.Amount
	since                                    time.Time
}

func (l *podLoad) grown(of, rate signals.Amount) signals.Amount {
	return of + signals.Amount(float64(rate)*time.Since(l.since).Seconds())
}

const (
	memory = 4 << 30
	room   = 100 << 30
)

func (w *world) add() {
	w.next++
	name := fmt.Sprintf("pod-%d", w.next)
	pod := signals.Pod{UID: "uid-" + name, Namespace: fmt.Sprintf("ns-%d", w.random.IntN(3)), Name: name, Priority: w.random.Int32N(3), Owner: fmt.Sprintf("owner-%d", w.random.IntN(4)), FromAPI: w.random.IntN(2) == 0,
		MemoryRequest: signals.Quantity{Value: signals.Amount(w.random.IntN(500)) * mebi}, Volumes: []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: signals.Amount(w.random.IntN(3)) * 20 << 30}}},
		Containers: []signals.Container{{Name: "app", ID: "id-" + name}}}
	if w.random.IntN(8) == 0 {
		pod.Protection = signals.Critical
	}
	l := &podLoad{since: time.Now(), memory: signals.Amount(w.random.IntN(600)) * mebi, disk: signals.Amount(w.random.IntN(10)) << 30}
	switch w.random.IntN(6) {
	case 0:
		l.rate = signals.Amount(w.random.IntN(20)) * mebi
	case 1:
		l.rate = signals.Amount(w.random.IntN(400)) * mebi
	case 2:
		l.filling = signals.Amount(w.random.IntN(500)) * mebi
	}
	if l.cache = signals.Amount(w.random.Int64N(int64(l.memory) + 1)); w.random.IntN(2) == 0 {
		l.cache = 0
	}
	l.dead = signals.Amount(w.random.IntN(3)) << 30
	if w.crowd {
		l.memory, l.cache, l.disk, l.dead, l.rate = mebi, 0, 0, 0, signals.Amount(mebi+w.random.IntN(mebi))
	}
	w.pods, w.usage[pod.UID] = append(slices.Clone(w.pods), pod), l
}

// draw returns a random number below n. The world changes beside the loop.
func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) remove(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = slices.DeleteFunc(slices.Clone(w.pods), func(p signals.Pod) bool { return p.UID == uid })
	delete(w.usage, uid)
}

// change changes something about the node.
func (w *world) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.random.IntN(9) {
	case 0, 1, 2:
		for range 1 + w.random.IntN(2) {
			if len(w.pods) < 12 || w.crowd && len(w.pods) < 40 {
				w.add()
			}
		}
	case 3:
		if n := len(w.pods); n > 0 {
			pods := slices.Clone(w.pods)
			pods[w.random.IntN(n)].EndsBy = time.Now().Add(time.Duration(w.random.IntN(100)) * time.Second)
			w.pods = pods
		}
	case 4:
		w.outside = signals.Amount(w.random.IntN(1500)) * mebi
		if w.crowd {
			w.outside = signals.Amount(memory) - signals.Amount(250+w.random.IntN(900))*mebi
		}
	case 5:
		w.blind = !w.blind && w.random.IntN(3) == 0
	case 6:
		w.layout = signals.Layout(w.random.IntN(3))
	case 7:
		w.limits = !w.limits
	case 8:
		w.garbage = signals.Amount(w.random.IntN(20)) << 30
	}
}

func (w *world) Observe(into *signals.Observations, kind signals.Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, free := signals.Amount(memory)-w.outside, signals.Amount(room)-w.garbage
	for _, l := range w.usage {
		left, free = left-l.grown(l.memory, l.rate), free-l.grown(l.disk, l.filling)-l.dead
	}
	into[signals.MemoryAvailable] = signals.Observed(left, memory, time.Now())
	into[signals.AllocatableMemoryAvailable] = signals.Observed(left-100*mebi, memory-500*mebi, time.Now())
	if w.blind {
		into[signals.MemoryAvailable] = signals.Unknown("unreadable")
	}
	if kind == signals.Periodic {
		into[signals.NodefsAvailable] = signals.Observed(free, room, time.Now())
		into[signals.ImagefsAvailable] = into[signals.NodefsAvailable]
		into[signals.PIDAvailable] = signals.Unknown("not observed")
	}
}

func (w *world) candidates() (all []signals.Candidate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pods {
		l := w.usage[w.pods[i].UID]
		disk := signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(l.grown(l.disk, l.filling))), Inodes: signals.Of[signals.Inodes](1)}
		all = append(all, signals.Candidate{Pod: &w.pods[i], Usage: &signals.Usage{Time: time.Now(), Memory: signals.Of(signals.Bytes(l.grown(l.memory, l.rate))), EphemeralStorage: disk.Bytes,
			MemoryRelief: signals.Of(signals.Bytes(l.grown(l.memory-l.cache, l.rate))), MemoryFiles: signals.Of(signals.Bytes(l.memory / 8)),
			OtherLayers: signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(l.dead))}, KubeletFiles: signals.FilesystemUsage{Bytes: signals.Of[signals.Bytes](4096)},
			Containers: []signals.ContainerUsage{{Name: "id-" + w.pods[i].Name, Memory: signals.Of[signals.Bytes](1)}}, Volumes: []signals.VolumeUsage{{Name: "data", FilesystemUsage: disk}}}})
	}
	return all
}

// Measure uses its memory again, as the port of an agent does.
func (w *world) Measure(context.Context) []signals.Candidate {
	<-time.After(time.Duration(w.draw(3)) * time.Millisecond)
	w.measured = append(w.measured[:0], w.candidates()...)
	return w.measured
}

func (w *world) Stored() []signals.Candidate { return w.candidates() }

func (w *world) Collect(ctx context.Context, what []signals.Garbage, _ func(*signals.Observations) bool) []signals.Garbage {
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(what) > 0 {
		w.garbage = 0
	}
	return what
}

func (w *world) Refresh(context.Context) {}

func (w *world) Checked(*agent.Outcome, *eviction.Policy) {}

// Consumers implements agent.Consumers.
func (w *world) Consumers(ctx context.Context, of agent.Shortage) signals.Consumption {
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return signals.Consumption{Largest: []signals.Consumer{of.Pods, {Name: "daemon", Kind: signals.ConsumerCgroup, Amount: w.outside}}, Unmeasured: []string{"hostPath /: too large"}}
}

func (w *world) Report(d *agent.Decision) {
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // as in the decision log
	if err := encoder.Encode(d); err != nil {
		w.lines = append(w.lines, err.Error())
	}
	w.lines = append(w.lines, strings.TrimSuffix(line.String(), "\n"))
	if d.Decision == agent.Evicted {
		w.evicted++
	}
	w.recorder.Decision(d, d.Time)
}

func (w *world) Save(s eviction.Saved) { w.saved = s }

func (w *world) Victim(e *eviction.Eviction) (agent.Victim, error) {
	if w.draw(10) == 0 {
		return nil, errors.New("no cgroup")
	}
	return victim{w, e.Pod.UID}, nil
}

type victim struct {
	w   *world
	uid string
}

func (v victim) Immediate(context.Context, context.Context, context.Context, time.Duration) (agent.EvictionResult, error) {
	switch v.w.draw(10) {
	case 0:
		return agent.EvictionResult{}, errors.New("not killed")
	case 1:
		return agent.EvictionResult{Status: agent.StatusReported}, errors.New("not killed, but reported")
	case 2:
		rest := make(chan struct{})
		time.AfterFunc(2*time.Second, func() { v.w.remove(v.uid); close(rest) })
		return agent.EvictionResult{Processes: 1, ProcessesRemain: true, Rest: rest}, nil
	}
	v.w.remove(v.uid)
	return agent.EvictionResult{Processes: 1}, nil
}

func (v victim) Graceful(ctx context.Context, grace time.Duration, change agent.Changes) (agent.EvictionResult, error) {
	select {
	case <-time.After(grace / 2):
	case <-change.Escalate:
	case <-change.Withdraw:
		return agent.EvictionResult{Withdrawn: true}, nil
	case <-ctx.Done():
		return agent.EvictionResult{}, ctx.Err()
	}
	v.w.remove(v.uid)
	return agent.EvictionResult{Processes: 1}, nil
}

func (v victim) Finish(context.Context) (agent.EvictionResult, error) {
	v.w.remove(v.uid)
	return agent.EvictionResult{Processes: 1}, nil
}

// policies compiles the policy for the present layout and limits, once each.
func (w *world) policies(t *testing.T) func() *agent.Rules {
	compiled := map[string]*agent.Rules{}
	return func() *agent.Rules {
		w.mu.Lock()
		defer w.mu.Unlock()
		key := fmt.Sprintf("%v %t %p", w.layout, w.limits, w.config)
		if compiled[key] == nil {
			c := *w.config
			c.LocalStorageCapacityIsolation = w.limits
			p, err := c.Policy(w.layout)
			if err != nil {
				t.Error(err)
			}
			if w.effective[p], err = w.config.Effective(); err != nil {
				t.Error(err)
			}
			compiled[key] = &agent.Rules{Policy: p, Limits: c.Limits.Policy(), MaxFillRate: 4 << 30}
		}
		return compiled[key]
	}
}

// live runs an agent for a while, and records it.
func (w *world) live(t *testing.T, d time.Duration) {
	policies := w.policies(t)
	machine, limits := eviction.New(policies().Policy), limiter.New(w.config.Limits.Policy())
	now := time.Now()
	machine.Restore(w.saved, now)
	limits.Restore(w.limited, now)
	effective := w.effective[machine.Policy()]
	before := agent.Checker{Machine: machine, Limiter: limits}
	q := ring.Start(ring.Options{Dir: w.dir, Size: ring.DefaultSize, State: before.State(recorder.Monotonic(now)),
		Header: recording.Header{Version: "test", Started: now, SinceBoot: time.Duration(now.UnixNano()), Config: effective},
		Usage: func() *recording.Usage {
			u := &recording.Usage{At: time.Now()}
			for _, c := range w.candidates() {
				p := recording.PodUsage{Pod: c.Pod, Values: [recording.ValueCount]int64{recording.WorkingSet: int64(c.Usage.Memory.Value), recording.Anon: int64(c.Usage.MemoryRelief.Value), recording.Disk: int64(c.Usage.EphemeralStorage.Value), recording.Swap: recording.Unknown}}
				u.Pods = append(u.Pods, p)
			}
			return u
		}})
	defer q.Close()
	w.recorder = recorder.New(q, now)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	a := agent.New(agent.Settings{Period: w.config.MonitoringPeriod, MaxFillRate: 4 << 30}, agent.Parts{Machine: machine, Observer: w, Pods: w, Victims: w, Collector: w, Inventory: w, Reporter: w,
		Rules: policies, Limiter: limits, LimiterSaved: func(s limiter.Saved) { w.limited = s }, Consumers: w, Recorder: &configuredRecorder{w.recorder, w, effective}})
	changes := time.NewTicker(time.Duration(3+w.random.IntN(10)) * time.Second)
	defer changes.Stop()
	go func() {
		for {
			select {
			case <-changes.C:
				w.change()
				w.reconfigure(t)
			case <-ctx.Done():
				return
			}
		}
	}()
	a.Run(ctx)
	synctest.Wait()
}

// reconfigure changes the configuration, if that is wanted.
func (w *world) reconfigure(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reconfigures && w.random.IntN(2) == 0 {
		w.config = randomConfig(t, w.random, w.crowd)
		w.reconfigured++
	}
}

// configuredRecorder passes on the configuration that the agent has adopted.
type configuredRecorder struct {
	*recorder.Recorder
	w    *world
	last []byte
}

func (r *configuredRecorder) Record(o *agent.Outcome, c *agent.Checker) {
	r.w.mu.Lock()
	now := r.w.effective[c.Machine.Policy()]
	r.w.mu.Unlock()
	if !bytes.Equal(now, r.last) {
		r.Reconfigured(now)
		r.last = now
	}
	r.Recorder.Record(o, c)
}

// randomConfig draws the options that decide.
func randomConfig(t *testing.T, r *rand.Rand, crowd bool) *config.Agent {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	choice, early := pick("", "evictionChoice: kubelet\n"), pick("", "earlyEviction: immediate\n", "earlyEviction: never\n")
	if crowd { // growth decides
		choice, early = "", ""
	}
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nevictionHard: {memory.available: 300Mi, nodefs.available: 30%}\n" +
		pick("", "evictionSoft: {memory.available: 800Mi}\nevictionSoftGracePeriod: {memory.available: 30s}\nevictionMaxPodGracePeriod: 20\n") +
		pick("", "evictionMinimumReclaim: {memory.available: 200Mi}\n") + pick("", "evictionsPerHour: 2\n") + pick("", "maxIneffectiveEvictions: 1\nineffectiveEvictionBackoff: 20s\n", "maxIneffectiveEvictions: 0\n") +
		pick("", "ownerBackoff: 20s\n") + early + choice + pick("", "monitoringPeriod: 3s\n") + pick("", "evictionPressureTransitionPeriod: 20s\n")))
	if err != nil {
		t.Error(err)
	}
	return c
}

// recordedWorld records a random node over some runs of its agent, and returns the recording.
func recordedWorld(t *testing.T, seed uint64, runs int, d time.Duration) (w *world, data []byte) {
	t.Helper()
	return recordedWorldOf(t, seed, runs, d, false)
}

// recordedWorldOf is recordedWorld, with changes of the configuration if that is wanted.
func recordedWorldOf(t *testing.T, seed uint64, runs int, d time.Duration, reconfigures bool) (w *world, data []byte) {
	t.Helper()
	r, crowd := rand.New(rand.NewPCG(seed, 7)), seed%3 == 2
	w = &world{random: r, config: randomConfig(t, r, crowd), dir: t.TempDir(), usage: map[string]*podLoad{}, limits: true, crowd: crowd,
		reconfigures: reconfigures, effective: map[*eviction.Policy][]byte{}}
	synctest.Test(t, func(t *testing.T) {
		for range 4 {
			w.add()
		}
		if w.crowd {
			w.outside = memory - 350*mebi
			for range 26 {
				w.add()
			}
		}
		for range runs {
			w.live(t, d)
			<-time.After(time.Duration(r.IntN(5)) * time.Second)
		}
	})
	return w, allSegments(t, w.dir)
}

// growthOf counts the repeated checks that found a pod which grew, and those that evicted one which helps
// for nothing but its growth.
func growthOf(o *agent.Outcome) (grew, helped int) {
	if o == nil || o.Growth.Most == nil {
		return 0, 0
	}
	for i := range o.Ranking {
		if r := &o.Ranking[i]; o.Evicted != nil && r.Pod == o.Evicted.Pod && r.Relief.Amount < o.Need.Least {
			return 1, 1
		}
	}
	return 1, 0
}

func allSegments(t *testing.T, dir string) (data []byte) {
	t.Helper()
	segments, err := ring.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		text, err := s.Read()
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, text...)
	}
	return data
}
