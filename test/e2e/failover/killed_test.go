package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/hollow"
)

const (
	mortals = 12 // nodes that die and return
	crew    = 4  // pods of a node that dies
)

// stages lists the stages of a node's death. A leader is killed at each in turn.
var stages = []struct {
	name string
	wait func(*trial, context.Context, *rand.Rand)
}{
	{"before Unknown", (*trial).beforeUnknown},
	{"between taint and eviction", (*trial).betweenTaintAndEviction},
	{"mid-eviction", (*trial).midEviction},
	{"at any moment", (*trial).anyMoment},
}

// TestLeadersAreKilled lets nodes die and return at different times while leaders are killed.
// Every due action must happen on time, or as soon as a leader exists.
func TestLeadersAreKilled(t *testing.T) {
	s := set(t)
	s.story("trial", func(s *stage) {
		tr := &trial{stage: s, seed: seed(t)}
		s.Logf("SEED=%d", tr.seed)
		tr.prepare()
		ctx, cancel := context.WithCancel(s.Context())
		var lives, pulse sync.WaitGroup
		defer func() { cancel(); lives.Wait(); pulse.Wait() }()
		pulse.Go(func() { tr.pulse(ctx) })
		last := make(chan struct{}) // closed when no more nodes die
		for i, n := range tr.nodes {
			lives.Go(func() { tr.live(ctx, last, n, tr.random(i)) })
		}
		tr.kill(ctx, tr.random(mortals))
		close(last)
		lives.Wait()
		cancel()
		pulse.Wait()
		tr.check()
	})
}

// seed returns SEED, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SEED=%s: %v", text, err)
	}
	return n
}

// trial records the actions, for comparison with the observations.
type trial struct {
	*stage
	seed  uint64
	nodes []*hollow.Node

	mu     sync.Mutex
	deaths []*death
	kills  []*kill
	pulses []hollow.Beat // requests that measure the response time
}

// death is a time of a node's silence.
type death struct {
	node *hollow.Node
	last hollow.Beat
	from time.Time // when its power failed
	pods []*corev1.Pod
	// back is the node's first report afterwards: sent, and certainly received.
	back hollow.Beat
}

// kill is the kill of a leader.
type kill struct {
	stage    string
	at       time.Time
	followed time.Time // when another replica led
}

func (t *trial) random(i int) *rand.Rand { return rand.New(rand.NewPCG(t.seed, uint64(i))) }

// between returns a random duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// prepare starts two controllers, the nodes that die, and one that never does.
func (t *trial) prepare() {
	t.replace()
	t.replace()
	t.until("somebody leads", func() bool { return t.leader() != nil })
	rock := t.node("rock")
	t.run(rock, hollow.Pod("rock", 0))
	for i := range mortals {
		t.nodes = append(t.nodes, t.node(fmt.Sprintf("mortal-%02d", i)))
	}
}

// replace starts a controller in place of a killed one.
func (t *trial) replace() {
	r, err := t.start(t.Context(), "--mass-failure-min-nodes="+strconv.Itoa(mortals))
	t.must(err)
	*t.replicas = append(*t.replicas, r)
}

// pulse sends requests to the API server periodically to measure its response time.
func (t *trial) pulse(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		begin := time.Now()
		if _, err := t.api.CoreV1().Nodes().Get(ctx, "rock", getOptions); err == nil {
			t.pulses = append(t.pulses, hollow.Beat{Sent: begin, Done: time.Now()})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// live makes a node die and return until last is closed.
func (t *trial) live(ctx context.Context, last <-chan struct{}, n *hollow.Node, random *rand.Rand) {
	pass(ctx, between(random, 0, 8*time.Second)) // not all at once
	for i := 0; ; i++ {
		pass(ctx, between(random, 0, 4*time.Second))
		select {
		case <-last:
			return
		case <-ctx.Done():
			return
		default:
		}
		if err := t.die(ctx, n, i, random); err != nil {
			t.Errorf("node %s: %v", n.Name, err)
			return
		}
	}
}

// die lets a node run some pods and fall silent. The silence lasts until all are evicted, or
// until a random moment after the taint.
func (t *trial) die(ctx context.Context, n *hollow.Node, i int, random *rand.Rand) error {
	d := &death{node: n}
	seconds := 1 + random.Int64N(4)
	for p := range crew {
		pod, err := n.Run(ctx, hollow.Pod(fmt.Sprintf("%s-%d-%d", n.Name, i, p), seconds+int64(p%2)))
		if err != nil {
			return err
		}
		d.pods = append(d.pods, pod)
	}
	d.from = time.Now()
	d.last = n.Stop()
	t.set(func() { t.deaths = append(t.deaths, d) })
	if err := t.await(ctx, d, random); err != nil {
		return err
	}
	if err := t.comeBack(ctx, d); err != nil {
		return err
	}
	return t.asBefore(ctx, d)
}

func (t *trial) comeBack(ctx context.Context, d *death) error {
	back := hollow.Beat{Sent: time.Now()}
	t.set(func() { d.back = back })
	err := d.node.Resume(ctx)
	back.Done = time.Now()
	t.set(func() { d.back = back })
	return err
}

func (t *trial) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// await waits until a node's pods are evicted, or shorter.
func (t *trial) await(ctx context.Context, d *death, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if random.IntN(4) > 0 {
		if err := t.book.Until(ctx, func() bool { return t.leaving(d) == len(d.pods) }); err != nil {
			return fmt.Errorf("%d of %d pods were evicted: %w", t.leaving(d), len(d.pods), err)
		}
		return nil
	}
	if err := t.book.Until(ctx, func() bool { return t.isTainted(d.node) }); err != nil {
		return fmt.Errorf("it is not tainted: %w", err)
	}
	pass(ctx, between(random, 0, 3*time.Second))
	return nil
}

func (t *trial) isTainted(n *hollow.Node) bool {
	return t.book.Node(n.Name).Taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) != nil
}

// leaving counts the deleted pods of a node.
func (t *trial) leaving(d *death) (count int) {
	for _, p := range d.pods {
		if t.book.Pod(p.UID).Leaving() {
			count++
		}
	}
	return count
}

// asBefore waits until a returned node is usable as before, and ends the remaining pods.
func (t *trial) asBefore(ctx context.Context, d *death) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := t.book.Until(ctx, func() bool {
		n := t.book.Node(d.node.Name)
		return n.Is(corev1.NodeReady) == corev1.ConditionTrue && n.Tainted(corev1.TaintEffectNoExecute) == "" && n.Tainted(corev1.TaintEffectNoSchedule) == ""
	})
	if err != nil {
		return fmt.Errorf("it is back and still tainted: %w", err)
	}
	for _, p := range d.pods {
		err = errors.Join(err, d.node.End(ctx, p))
	}
	return err
}

// kill kills leaders, each at its stage. It waits until another one leads and two run again.
func (t *trial) kill(ctx context.Context, random *rand.Rand) {
	count := number(t.T, "KILLS", 8)
	for i := range count {
		stage := stages[i%len(stages)]
		stage.wait(t, ctx, random)
		t.poll("somebody leads", func() bool { return t.leader() != nil })
		victim := t.leader()
		k := &kill{stage: stage.name, at: time.Now()}
		t.must(victim.Kill())
		t.kills = append(t.kills, k)
		t.replace()
		t.poll("another one leads", func() bool {
			for _, r := range t.renewals() {
				if r.at.After(k.at) && r.holder != victim.identity && r.holder != "" {
					k.followed = r.at
					return true
				}
			}
			return false
		})
	}
}

// beforeUnknown waits until a node is silent, and then for less than its grace period.
func (t *trial) beforeUnknown(ctx context.Context, random *rand.Rand) {
	begin := time.Now()
	t.poll("a node dies", func() bool { return t.died(begin) })
	pass(ctx, between(random, 0, grace-slack/2))
}

func (t *trial) died(since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.deaths) > 0 && t.deaths[len(t.deaths)-1].last.Sent.After(since.Add(-slack))
}

// betweenTaintAndEviction waits until a node is tainted, and then for less than any pod's
// toleration.
func (t *trial) betweenTaintAndEviction(ctx context.Context, random *rand.Rand) {
	begin := time.Now()
	t.until("a node is tainted", func() bool {
		for _, n := range t.nodes {
			if state := t.book.Node(n.Name); state.At.After(begin) && t.isTainted(n) {
				return true
			}
		}
		return false
	})
	pass(ctx, between(random, 0, time.Second))
}

// midEviction waits until some pods of a node are deleted and others are not.
func (t *trial) midEviction(context.Context, *rand.Rand) {
	t.until("a node's pods are being evicted", func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, d := range t.deaths {
			if n := t.leaving(d); d.back.Sent.IsZero() && n > 0 && n < len(d.pods) {
				return true
			}
		}
		return false
	})
}

func (t *trial) anyMoment(ctx context.Context, random *rand.Rand) {
	pass(ctx, between(random, 0, 4*time.Second))
}
