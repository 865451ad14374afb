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
	failingNodes = 12 // nodes that fail and return
	crew         = 4  // pods of a failing node
)

// killTimes lists the stages of a node's failure. A leader is killed at each in turn.
var killTimes = []struct {
	name string
	wait func(*failoverRun, context.Context, *rand.Rand)
}{
	{"before Unknown", (*failoverRun).beforeUnknown},
	{"between taint and eviction", (*failoverRun).betweenTaintAndEviction},
	{"mid-eviction", (*failoverRun).midEviction},
	{"at any moment", (*failoverRun).anyMoment},
}

// TestController_ActsOnTimeWhileLeadersAreKilled lets nodes fail and return at different times while leaders are killed.
// Every due action must happen on time, or as soon as a leader exists.
func TestController_ActsOnTimeWhileLeadersAreKilled(t *testing.T) {
	s := set(t)
	s.scenario("random failovers", func(s *env) {
		tr := &failoverRun{env: s, seed: seed(t)}
		s.Logf("SEED=%d", tr.seed)
		tr.prepare()
		ctx, cancel := context.WithCancel(s.Context())
		var running, pulse sync.WaitGroup
		defer func() { cancel(); running.Wait(); pulse.Wait() }()
		pulse.Go(func() { tr.pulse(ctx) })
		last := make(chan struct{}) // closed when no more nodes fail
		for i, n := range tr.nodes {
			running.Go(func() { tr.live(ctx, last, n, tr.random(i)) })
		}
		tr.kill(ctx, tr.random(failingNodes))
		close(last)
		running.Wait()
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

// failoverRun records the actions, for comparison with the observations.
type failoverRun struct {
	*env
	seed   uint64
	nodes  []*hollow.Node
	stable *hollow.Node // never fails

	mu     sync.Mutex
	deaths []*death
	kills  []*kill
	pulses []hollow.Beat // requests that measure the response time
	led    []renewal     // of the leader's lease, by time
	slow   []span        // requests, by their begin
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
	env       string
	at        time.Time
	succeeded time.Time // when another replica led
}

func (t *failoverRun) random(i int) *rand.Rand { return rand.New(rand.NewPCG(t.seed, uint64(i))) }

// between returns a random duration.
func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(random.Int64N(int64(high-low)))
}

// prepare starts two controllers, the failing nodes, and one that never fails.
func (t *failoverRun) prepare() {
	t.replace()
	t.replace()
	t.until("a controller leads", func() bool { return t.leader() != nil })
	t.stable = t.node("rock")
	t.run(t.stable, hollow.Pod("rock", 0))
	for i := range failingNodes {
		t.nodes = append(t.nodes, t.node(fmt.Sprintf("mortal-%02d", i)))
	}
}

// replace starts a controller in place of a killed one.
func (t *failoverRun) replace() {
	r, err := t.start(t.Context(), "--mass-failure-min-nodes="+strconv.Itoa(failingNodes))
	t.must(err)
	*t.replicas = append(*t.replicas, r)
}

// pulse sends requests to the API server periodically to measure its response time.
func (t *failoverRun) pulse(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		begin := time.Now()
		if _, _ = t.api.CoreV1().Nodes().Get(ctx, "rock", getOptions); ctx.Err() == nil { // a failure takes its time too
			t.pulses = append(t.pulses, hollow.Beat{Sent: begin, Done: time.Now()})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// live makes a node fail and return until last is closed.
func (t *failoverRun) live(ctx context.Context, last <-chan struct{}, n *hollow.Node, random *rand.Rand) {
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
		if err := t.failOnce(ctx, n, i, random); err != nil {
			t.Errorf("node %s: %v", n.Name, err)
			return
		}
	}
}

// failOnce lets a node run some pods and stops it. The silence lasts until all are evicted, or
// until a random moment after the taint.
func (t *failoverRun) failOnce(ctx context.Context, n *hollow.Node, i int, random *rand.Rand) error {
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

func (t *failoverRun) comeBack(ctx context.Context, d *death) error {
	back := hollow.Beat{Sent: time.Now()}
	t.set(func() { d.back = back })
	err := d.node.Resume(ctx)
	back.Done = time.Now()
	t.set(func() { d.back = back })
	return err
}

func (t *failoverRun) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// await waits until a node's pods are evicted, or shorter.
func (t *failoverRun) await(ctx context.Context, d *death, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if random.IntN(4) > 0 {
		if err := t.rec.Until(ctx, func() bool { return t.leaving(d) == len(d.pods) }); err != nil {
			return fmt.Errorf("%d of %d pods were evicted: %w", t.leaving(d), len(d.pods), err)
		}
		return nil
	}
	if err := t.rec.Until(ctx, func() bool { return t.isTainted(d.node) }); err != nil {
		return fmt.Errorf("it is not tainted: %w", err)
	}
	pass(ctx, between(random, 0, 3*time.Second))
	return nil
}

func (t *failoverRun) isTainted(n *hollow.Node) bool {
	return t.rec.Node(n.Name).Taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) != nil
}

// leaving counts the deleted pods of a node.
func (t *failoverRun) leaving(d *death) (count int) {
	for _, p := range d.pods {
		if t.rec.Pod(p.UID).Leaving() {
			count++
		}
	}
	return count
}

// asBefore waits until a returned node is usable as before, and ends the remaining pods.
func (t *failoverRun) asBefore(ctx context.Context, d *death) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := t.rec.Until(ctx, func() bool {
		n := t.rec.Node(d.node.Name)
		return n.Is(corev1.NodeReady) == corev1.ConditionTrue && n.Tainted(corev1.TaintEffectNoExecute) == "" && n.Tainted(corev1.TaintEffectNoSchedule) == ""
	})
	if err != nil {
		return fmt.Errorf("it returned and is still tainted: %w", err)
	}
	for _, p := range d.pods {
		err = errors.Join(err, d.node.End(ctx, p))
	}
	return err
}

// kill kills leaders, each at its time. It waits until another one leads and two run again.
func (t *failoverRun) kill(ctx context.Context, random *rand.Rand) {
	count := number(t.T, "KILLS", 8)
	for i := range count {
		env := killTimes[i%len(killTimes)]
		env.wait(t, ctx, random)
		t.poll("a controller leads", func() bool { return t.leader() != nil })
		victim := t.leader()
		k := &kill{env: env.name, at: time.Now()}
		t.must(victim.Kill())
		t.kills = append(t.kills, k)
		t.replace()
		t.poll("another one leads", func() bool {
			for _, r := range t.renewals() {
				if r.at.After(k.at) && r.holder != victim.identity && r.holder != "" {
					k.succeeded = r.at
					return true
				}
			}
			return false
		})
	}
}

// beforeUnknown waits until a node is silent, and then for less than its grace period.
func (t *failoverRun) beforeUnknown(ctx context.Context, random *rand.Rand) {
	begin := time.Now()
	t.poll("a node fails", func() bool { return t.died(begin) })
	pass(ctx, between(random, 0, grace-slack/2))
}

func (t *failoverRun) died(since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.deaths) > 0 && t.deaths[len(t.deaths)-1].last.Sent.After(since.Add(-slack))
}

// betweenTaintAndEviction waits until a node is tainted, and then for less than any pod's
// toleration.
func (t *failoverRun) betweenTaintAndEviction(ctx context.Context, random *rand.Rand) {
	begin := time.Now()
	t.until("a node is tainted", func() bool {
		for _, n := range t.nodes {
			if state := t.rec.Node(n.Name); state.At.After(begin) && t.isTainted(n) {
				return true
			}
		}
		return false
	})
	pass(ctx, between(random, 0, time.Second))
}

// midEviction waits until some pods of a node are deleted and others are not.
func (t *failoverRun) midEviction(context.Context, *rand.Rand) {
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

func (t *failoverRun) anyMoment(ctx context.Context, random *rand.Rand) {
	pass(ctx, between(random, 0, 4*time.Second))
}
