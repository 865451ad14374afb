package liveness

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/evict"
)

// setting returns a number of the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestLiveness_HardThresholdEvictsOrLogsReason(t *testing.T) {
	seed, sequences := setting(t, "SEED", rand.Uint64()), setting(t, "SEQUENCES", 1000)
	first := setting(t, "ONLY", 0)
	if os.Getenv("ONLY") != "" {
		sequences = first + 1
	}
	var mu sync.Mutex
	var all []delay
	counts := map[string]int{}
	t.Run("sequences", func(t *testing.T) {
		for w := range uint64(runtime.GOMAXPROCS(0)) {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for i := first + w; i < sequences && !t.Failed(); i += uint64(runtime.GOMAXPROCS(0)) {
					m := sequence(t, seed, i)
					mu.Lock()
					all = append(all, m.delays...)
					for name, n := range m.counts {
						counts[name] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	slices.SortFunc(all, func(a, b delay) int { return cmp.Compare(b.took, a.took) })
	t.Logf("seed %d, %d sequences, %d obligations; decisions: %v", seed, sequences, len(all), counts)
	for _, d := range all[:min(20, len(all))] {
		t.Logf("%s until an eviction was tried for %s in sequence %d", d.took, d.signal, d.sequence)
	}
	for _, name := range []string{"evict", "soft-evict", "limited", "blocked", "withdrawn", "escalate", "ineffective", "failed", "none-helps", "given up", "left to the kubelet"} {
		if sequences-first >= 1000 && counts[name] < 3 {
			t.Errorf("%s was decided %d times in %d sequences, want at least 3", name, counts[name], sequences)
		}
	}
}

// sequence runs an agent on one random node.
func sequence(t *testing.T, seed, i uint64) *monitor {
	m := &monitor{t: t, verbose: os.Getenv("ONLY") != "", seed: seed, sequence: i, counts: map[string]int{}, owners: map[string]int{}, pending: map[string]int{}, lines: map[string]string{}, named: map[string]time.Time{}, givenUp: map[string]time.Time{}}
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, i))
		n := &node{r: r, seed: r.Uint64(), collects: rand.New(rand.NewPCG(seed+1, i)), monitor: m, wake: make(chan struct{}, 1), slow: time.Duration(100+r.IntN(400)) * time.Millisecond}
		m.node, m.begun = n, time.Now()
		n.ladder = &evict.Evictor{Status: server{n}, Soft: server{n}}
		m.limits = limiter.Policy{PerHour: []int{0, 3, 6}[r.IntN(3)], MaxIneffective: []int{0, 2}[r.IntN(2)], IneffectiveBackoff: 5 * time.Minute, OwnerBackoff: 10 * time.Minute}
		length := 5 * time.Minute
		soft := r.IntN(8) == 0
		thresholds := slices.Clone(hard)
		if soft {
			length = 25 * time.Minute
			thresholds = append(thresholds, eviction.Threshold{Signal: signals.MemoryAvailable, Value: quantity(400 * mib), Grace: 30 * time.Second})
		}
		policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: thresholds, TransitionPeriod: 5 * time.Minute,
			EarlyEvictionHorizon: 500 * time.Millisecond, MaxPodGracePeriod: 60})
		if err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		n.populate()
		n.happen(length, soft)
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		agent.New(agent.Settings{Period: cycle, MaxFillRate: gib}, agent.Parts{
			Machine: eviction.New(policy), Observer: n, Pods: n, Victims: n, Collector: n, Inventory: n, Reporter: n, Notifier: n,
			Limiter: limiter.New(m.limits), Consumers: n,
		}).Run(ctx)
		synctest.Wait()
	})
	return m
}

// populate adds ordinary and hostile pods to a node.
func (n *node) populate() {
	r := n.r
	for i := range 4 + r.IntN(8) {
		p := n.any(fmt.Sprintf("pod-%d", i))
		p.uses = map[signals.Signal]signals.Amount{
			signals.MemoryAvailable:  signals.Amount(r.IntN(300)) * mib,
			signals.NodefsAvailable:  signals.Amount(r.IntN(8)) * gib,
			signals.NodefsInodesFree: signals.Amount(r.IntN(8000)),
			signals.PIDAvailable:     signals.Amount(1 + r.IntN(300)),
		}
		if r.IntN(3) == 0 { // within its requests
			p.MemoryRequest.Value, p.StorageRequest.Value = 512*mib, 10*gib
		}
	}
}

// any returns a pod of any kind, without usage.
func (n *node) any(name string) *pod {
	r := n.r
	grace := int64(r.IntN(90))
	p := &pod{stubborn: r.IntN(3) == 0, unmounts: time.Duration(r.IntN(1500)) * time.Millisecond}
	p.Namespace = []string{"cheap", "cheap", "web", "batch"}[r.IntN(4)]
	p.Owner, p.FromAPI, p.Priority, p.TerminationGracePeriod = name, true, int32(r.IntN(3)), &grace
	p.budget = []int{allowed, allowed, neverAllowed, neverActedOn}[r.IntN(4)]
	if r.IntN(8) == 0 {
		p.resists = time.Duration(1+r.IntN(25)) * time.Second
	}
	switch r.IntN(8) {
	case 0:
		p.Protection = []signals.Protection{signals.OptedOut, signals.Critical, signals.Static}[r.IntN(3)]
	case 1: // files in memory and no process; unmounted late, or almost never
		p.empty, p.unmounts = true, time.Duration(r.IntN(60))*time.Second
	case 2, 3: // its owner replaces it
		p.Owner, p.again = "loop", time.Duration(1+r.IntN(20))*time.Second
	case 4: // deleted with a day of grace
		n.later(time.Duration(r.IntN(200))*time.Second, func() { p.EndsBy, p.stubborn = time.Now().Add(24*time.Hour), true })
	case 5: // deleted, and ends in time
		n.later(time.Duration(r.IntN(200))*time.Second, func() {
			p.EndsBy = time.Now().Add(30 * time.Second)
			n.later(time.Duration(1+r.IntN(28))*time.Second, func() { n.end(p) })
		})
	case 6: // many that come and go, each with another owner
		p.again = time.Duration(1+r.IntN(5)) * time.Second
	}
	return n.add(name, p)
}

// happen makes pods exhaust the node's resources repeatedly.
func (n *node) happen(length time.Duration, soft bool) {
	r := n.r
	if soft && r.IntN(2) == 0 { // only a soft threshold, for long
		for _, p := range n.pods {
			p.budget = []int{allowed, neverAllowed, neverActedOn}[r.IntN(3)]
		}
		n.later(10*time.Second, func() { n.fill(signals.MemoryAvailable, signals.Amount(150+r.IntN(200))*mib) })
		if r.IntN(3) == 0 { // and a hard one while a soft eviction is in progress
			at, left := time.Duration(60+r.IntN(60))*time.Second, signals.Amount(r.IntN(100))*mib
			n.later(at, func() { n.fill(signals.MemoryAvailable, left) })
		}
		return
	}
	for at := time.Duration(r.IntN(20)) * time.Second; at < length-time.Minute; at += time.Duration(5+r.IntN(60)) * time.Second {
		t := hard[r.IntN(len(hard))]
		n.later(at, func() {
			n.r = rand.New(rand.NewPCG(n.seed, uint64(at))) // independent of previous events
			r := n.r
			left := t.Value.Quantity.Value * signals.Amount(r.IntN(130)-10) / 100
			if soft && t.Signal.OfMemory() && r.IntN(4) > 0 {
				left = signals.Amount(120+r.IntN(250)) * mib
			}
			n.fill(t.Signal, left)
		})
	}
}

// fill makes one pod, an old or a new one, consume all but an amount.
func (n *node) fill(s signals.Signal, left signals.Amount) {
	r, missing := n.r, n.available(s)-left
	if missing <= 0 {
		return
	}
	var p *pod
	if len(n.pods) > 0 && r.IntN(2) == 0 {
		p = n.pods[r.IntN(len(n.pods))]
	} else {
		p = n.any(fmt.Sprintf("new-%d", n.made))
		p.uses = map[signals.Signal]signals.Amount{}
	}
	p.uses[s] += missing
}
