package core_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// cluster has many healthy nodes, and pods with the default tolerations.
type cluster struct {
	fleet *core.Fleet
	names []string
	nodes map[string]*model.Node
	now   time.Time
}

func newCluster(nodes, zones, podsEach int) *cluster {
	c := &cluster{fleet: core.New(taintMode()), nodes: map[string]*model.Node{}, now: start}
	tolerations := defaultTolerations(300)
	for i := range nodes {
		n := &model.Node{Name: fmt.Sprintf("node-%06d", i), UID: fmt.Sprint("uid-", i), Created: start}
		n.Labels.Region, n.Labels.Zone = "r", fmt.Sprint("z", i%zones)
		for t := range model.UnknownConditionTypes {
			n.Conditions[t] = model.Condition{Status: model.False, Heartbeat: start, Transition: start}
		}
		n.Conditions[model.Ready].Status = model.True
		c.names = append(c.names, n.Name)
		c.nodes[n.Name] = n
		c.fleet.Node(n, start)
		c.fleet.Renewed(n.Name, start, start, start)
		for j := range podsEach {
			name := fmt.Sprintf("pod-%d-%d", i, j)
			c.fleet.Pod(&model.Pod{Namespace: "default", Name: name, UID: name, Node: n.Name, Created: start, Tolerations: tolerations, Ready: true}, start)
		}
	}
	c.fleet.Lead(time.Time{}, start)
	c.settle()
	return c
}

// renew renews all leases except those of some nodes.
func (c *cluster) renew(but map[string]bool) {
	for _, name := range c.names {
		if !but[name] {
			c.fleet.Renewed(name, c.now, c.now, c.now)
		}
	}
}

// settle carries out all actions that are due, and counts them.
func (c *cluster) settle() (done int) {
	for {
		actions := c.fleet.Act(c.now)
		if len(actions) == 0 {
			return done
		}
		done += len(actions)
		for i := range actions {
			c.execute(&actions[i])
		}
	}
}

func (c *cluster) execute(a *core.Action) {
	switch a.Kind {
	case core.MarkUnknown, core.Taint:
		c.nodes[a.Node] = written(c.nodes[a.Node], a, c.now)
		c.fleet.Node(c.nodes[a.Node], c.now)
	case core.Evict:
		c.fleet.PodGone(a.Pod.UID, c.now)
	}
	if a.Kind.Writes() {
		c.fleet.Finished(a, nil, c.now)
	}
}

func BenchmarkRenewedOf150000(b *testing.B) {
	c := newCluster(150_000, 3, 0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		c.now = c.now.Add(66 * time.Microsecond) // 15 000 per second
		c.fleet.Renewed(c.names[n%len(c.names)], c.now, c.now, c.now)
		n++
	}
}

// BenchmarkSecondOf150000 is a second of 150 000 nodes: 15 000 renewals, and decisions whenever
// Next returns.
func BenchmarkSecondOf150000(b *testing.B) {
	c := newCluster(150_000, 3, 0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range 15_000 {
			c.now = c.now.Add(66666 * time.Nanosecond)
			c.fleet.Renewed(c.names[n%len(c.names)], c.now, c.now, c.now)
			n++
			if next, ok := c.fleet.Next(); ok && !next.After(c.now) && c.settle() > 0 {
				b.Fatal("Act returned an action for a healthy node")
			}
		}
	}
}

func BenchmarkActIdleOf150000(b *testing.B) {
	c := newCluster(150_000, 3, 0)
	b.ReportAllocs()
	for b.Loop() {
		if c.settle() > 0 {
			b.Fatal("Act returned an action")
		}
	}
}

func BenchmarkOneNodeDiesWith110Pods(b *testing.B) {
	c := newCluster(2000, 3, 110)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		lost := map[string]bool{c.names[i%len(c.names)]: true}
		c.now = c.now.Add(39 * second)
		c.renew(lost)
		c.now = c.now.Add(10 * second)
		b.StartTimer()
		if done := c.settle(); done < 112 {
			b.Fatalf("got only %d actions", done)
		}
		b.StopTimer()
		c.revive(lost)
		b.StartTimer()
	}
}

// revive makes lost nodes and their pods ready again.
func (c *cluster) revive(lost map[string]bool) {
	for name := range lost {
		n := *c.nodes[name]
		for t := range model.UnknownConditionTypes {
			n.Conditions[t] = model.Condition{Status: model.False, Heartbeat: c.now, Transition: c.now}
		}
		n.Conditions[model.Ready].Status = model.True
		c.nodes[name] = &n
		c.fleet.Node(&n, c.now)
	}
	c.settle()
	c.renew(nil)
	c.settle()
}

func BenchmarkThousandOfAZoneDieWith30PodsEach(b *testing.B) {
	c := newCluster(4000, 3, 30)
	lost := map[string]bool{}
	for i := 0; len(lost) < 1000; i += 3 {
		lost[c.names[i]] = true
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c.now = c.now.Add(39 * second)
		c.renew(lost)
		c.now = c.now.Add(10 * second)
		b.StartTimer()
		if done := c.settle(); done < 32_000 {
			b.Fatalf("got only %d actions", done)
		}
		b.StopTimer()
		c.revive(lost)
		b.StartTimer()
	}
}
