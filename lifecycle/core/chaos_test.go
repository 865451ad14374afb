package core_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// chaos is a random cluster with all kinds of faults.
type chaos struct {
	*harness
	r        *rand.Rand
	names    []string
	down     map[string]bool
	lastPod  int
	restarts []time.Time
}

// chaosConfig has the parameters of a chaos.
type chaosConfig struct {
	failing  float64 // share of writes that fail
	slow     bool    // writes, answers and objects are delayed
	lossy    float64 // share of renewals that the watch does not deliver
	restarts int
	length   time.Duration
	events   int
	dryRun   bool
}

var all = chaosConfig{failing: 0.2, slow: true, lossy: 0.1, restarts: 2, length: 15 * minute, events: 25}

func newChaos(tb testingTB, seed uint64, p core.Policy, t chaosConfig) *chaos {
	c := &chaos{harness: newHarness(tb, p), r: rand.New(rand.NewPCG(seed, 7)), down: map[string]bool{}}
	if t.dryRun {
		c.startDryRun()
	}
	if t.failing > 0 || t.slow {
		c.faults = func(*core.Action) fault { return c.fault(t) }
	}
	c.terminationTime = func() time.Duration { return time.Duration(c.r.IntN(40)) * second }
	c.lossy = func() bool { return c.r.Float64() < t.lossy }
	places := 1 + c.r.IntN(3)
	for i := range 2 + c.r.IntN(9) {
		name := fmt.Sprintf("n%d", i)
		c.names = append(c.names, name)
		zone, excluded := fmt.Sprint("z", c.r.IntN(places)), c.r.IntN(12) == 0
		c.node(name, in(zone), func(n *model.Node) { n.Labels.Excluded = excluded })
		for range c.r.IntN(4) {
			c.newPod(name)
		}
	}
	for range t.events {
		c.at(c.moment(t), c.randomEvent)
	}
	for range t.restarts {
		c.at(c.moment(t), func() {
			c.restarts = append(c.restarts, c.now)
			c.restart()
		})
	}
	return c
}

// moment returns a random time since the start, often the same as a previous one.
func (c *chaos) moment(t chaosConfig) time.Duration {
	return time.Duration(c.r.IntN(int(t.length/second)/5)) * 5 * second
}

func (c *chaos) fault(t chaosConfig) (f fault) {
	if c.r.Float64() < t.failing {
		f.err = errFault
	}
	if t.slow && c.r.IntN(3) == 0 {
		late := func() time.Duration { return time.Duration(c.r.IntN(3000)) * time.Millisecond }
		f.carried, f.done, f.shown = late(), late(), late()
	}
	return f
}

func (c *chaos) newPod(node string) {
	c.lastPod++
	var tolerations []model.Toleration
	for _, key := range []string{model.KeyNotReady, model.KeyUnreachable, "user"} {
		if c.r.IntN(3) > 0 {
			tolerations = append(tolerations, tolerates(key, int64(c.r.IntN(5)*40)-1))
		}
	}
	name := fmt.Sprint("p", c.lastPod)
	c.podLike(model.Pod{Name: name, UID: name, Node: node, Tolerations: tolerations, Ready: c.r.IntN(5) > 0,
		Finished: c.r.IntN(10) == 0, Daemon: c.r.IntN(6) == 0})
}

// randomNode returns the name of a random existing node.
func (c *chaos) randomNode() string {
	for {
		if name := c.names[c.r.IntN(len(c.names))]; c.nodes[name] != nil {
			return name
		}
	}
}

// randomEvent changes the cluster once, at random. At least one node remains.
func (c *chaos) randomEvent() {
	name := c.randomNode()
	switch c.r.IntN(14) {
	case 0, 1, 2, 3:
		c.stop(name)
		c.down[name] = true
	case 4:
		for _, n := range c.names {
			if c.nodes[n] != nil && c.nodes[n].Labels.Zone == c.nodes[name].Labels.Zone && c.r.IntN(4) > 0 {
				c.stop(n)
				c.down[n] = true
			}
		}
	case 5, 6, 7:
		c.resume(name)
		delete(c.down, name)
	case 8:
		if !c.down[name] {
			c.ready(name, []model.Status{model.False, model.True, model.Unknown}[c.r.IntN(3)])
		}
	case 9:
		c.untaint(name, "user")
		if c.r.IntN(2) == 0 {
			c.taint(name, "user")
		}
	case 10:
		c.newPod(name)
	case 11:
		c.change(name, func(n *model.Node) { n.Labels.Zone = fmt.Sprint("z", c.r.IntN(3)) })
	case 12:
		c.change(name, func(n *model.Node) { n.Unschedulable = !n.Unschedulable })
	case 13:
		if len(c.nodes) > 1 {
			zone := c.nodes[name].Labels.Zone
			c.deleteNode(name)
			if c.r.IntN(2) == 0 {
				c.node(name, in(zone))
				delete(c.down, name)
			}
		}
	}
}
