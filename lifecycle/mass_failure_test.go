package lifecycle

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// dying is the number of nodes of zone z that die at once.
const dying = 1000

// TestController_TaintsThousandDeadNodesAtRate checks that nodes are tainted at the rate of their
// zone's state and never sooner, in the order of their deaths. The number of requests for each is
// fixed, and their rate never exceeds the budget.
func TestController_TaintsThousandDeadNodesAtRate(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, c := range map[string]struct {
		alive  int           // of the same zone
		second time.Duration // time of the second loss: the rate changes with the number of dead nodes
		every  time.Duration // interval of the next ones
		given  int           // their number in the observed time
		reads  bool
	}{
		"whole zone":                  {0, ms(50_999) + time.Second, time.Second, dying, false},
		"most of the zone":            {250, ms(50_687) + 10*time.Second, 10 * time.Second, 20, false},
		"half of the zone":            {1000, ms(51_000), time.Second, 100, false},
		"whole zone, with live reads": {0, ms(0), time.Second, dying, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.settings.EventQPS, r.policy.Confirmation.LiveReads = 0, c.reads
				calls := r.countRequests()
				order := r.massFailure(c.alive)
				r.start()
				r.until(c.second + time.Duration(c.given-2)*c.every + c.every/2)
				if c.reads { // some of the confirmed ones go first until all are confirmed
					r.until(time.Duration(c.given+90) * c.every)
					r.expectPace(order, c.every)
				} else {
					r.expectOrder(order[:c.given], c.second, c.every)
				}
				calls.expect(t, c.given, c.reads)
				calls.expectBudget(t, r.settings.QPS, r.settings.Burst)
			})
		})
	}
}

// massFailure stores zones, one of which loses a thousand nodes within a second. It returns these
// in the order of their deaths, which is not that of their names.
func (r *env) massFailure(alive int) (order []string) {
	var living []string
	for i := range 3 {
		living = append(living, r.node(fmt.Sprint("y", i), func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "y" }).Name)
	}
	for i := range alive {
		living = append(living, r.node(fmt.Sprintf("x%04d", i)).Name)
	}
	for i := range dying {
		r.until(time.Duration(i) * time.Millisecond)
		name := fmt.Sprintf("n%04d", (i*7919+dying/2)%dying)
		r.node(name)
		r.pod(name, "on-"+name, tolerating(3600))
		order = append(order, name)
	}
	r.renewEvery10s(r.t.Context(), corev1.NamespaceNodeLease, living...)
	return order
}

// loss is a node's first NoExecute taint.
type loss struct {
	node string
	at   time.Duration // since the start
}

func (r *env) losses() (all []loss) {
	r.decided.Lock()
	defer r.decided.Unlock()
	for _, d := range r.decisions {
		if d.Decision != "taint" || !strings.Contains(d.What, "+node.kubernetes.io/unreachable:NoExecute") {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, d.Time)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, loss{d.Node, at.Sub(r.begun)})
	}
	return all
}

// slack is the tolerated delay: one round.
const slack = 2 * minSleep

// expectOrder expects taints of exactly these nodes in this order, the first one at its death.
func (r *env) expectOrder(names []string, second, every time.Duration) {
	r.t.Helper()
	all := r.losses()
	if len(all) != len(names) {
		r.t.Errorf("got %d tainted nodes, want %d", len(all), len(names))
	}
	for i, s := range all[:min(len(all), len(names))] {
		want := second + time.Duration(i-1)*every
		if i == 0 {
			want = 50 * time.Second
		}
		if late := s.at - want; s.node != names[i] || late < 0 || late > slack {
			r.t.Fatalf("loss %d: got %s at %s, want %s at %s", i+1, s.node, s.at, names[i], want)
		}
	}
}

// expectPace expects taints of all of these nodes at this minimum interval. Nodes that were
// left when all deaths were confirmed must be in order.
func (r *env) expectPace(names []string, every time.Duration) {
	r.t.Helper()
	all := r.losses()
	if len(all) != len(names) {
		r.t.Errorf("got %d tainted nodes, want %d", len(all), len(names))
	}
	age := map[string]int{}
	for i, name := range names {
		age[name] = i
	}
	for i := 1; i < len(all); i++ {
		was, is := all[i-1], all[i]
		if is.at-was.at < every-time.Millisecond { // the log's resolution
			r.t.Fatalf("%s was tainted at %s, and %s already at %s", was.node, was.at, is.node, is.at)
		}
		if was.at > 2*time.Minute && age[is.node] < age[was.node] {
			r.t.Fatalf("%s was tainted at %s after %s, which died later", is.node, is.at, was.node)
		}
	}
}

// requestCounter records the requests to the server, by kind, with their times.
type requestCounter struct {
	mu    sync.Mutex
	kinds map[string]int
	at    []time.Time
}

// countRequests counts requests except lists and watches.
func (r *env) countRequests() *requestCounter {
	b := &requestCounter{kinds: map[string]int{}}
	r.fault = func(q *http.Request) (*http.Response, error) {
		if a := addressOf(q.URL.Path); a.name != "" {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.kinds[strings.TrimSuffix(q.Method+" "+a.kind+"/"+a.part, "/")]++
			b.at = append(b.at, time.Now())
		}
		return nil, nil
	}
	return b
}

// expect expects for each node one write of its conditions, and one read and one write of its
// taints, or two of each for nodes tainted later. It also expects one mark for each pod, and one
// read of each lease if leases are read.
func (b *requestCounter) expect(t *testing.T, given int, reads bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	taints := dying + given - 1 // the first one has both in one write
	want := map[string]int{"PATCH nodes/status": dying, "GET nodes": taints, "PATCH nodes": taints, "PATCH pods/status": dying}
	if reads {
		want["GET leases"] = dying
	}
	for kind, want := range want {
		if got := b.kinds[kind]; got != want {
			t.Errorf("%s: got %d requests, want %d", kind, got, want)
		}
		delete(b.kinds, kind)
	}
	if len(b.kinds) > 0 {
		t.Errorf("unexpected requests: %v", b.kinds)
	}
}

// expectBudget expects no more requests in any interval than the budget allows to begin in it.
func (b *requestCounter) expectBudget(t *testing.T, qps float64, burst int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.at {
		for j := i + burst; j < len(b.at); j += burst {
			if limit := float64(burst) + 1 + qps*b.at[j].Sub(b.at[i]).Seconds(); float64(j-i) > limit {
				t.Fatalf("got %d requests within %s from %s", j-i, b.at[j].Sub(b.at[i]), b.at[i])
			}
		}
	}
}
