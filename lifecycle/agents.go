package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/cache"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// asking is the set of soft evictions that the agent of a node requests in its own lease, by UID.
// Such an agent is not permitted to mark pods.
type asking map[string]model.Request

// word is an agent's lease: the time of its renewal, and its requests.
type word struct {
	at   time.Time
	asks asking
}

func sameWord(a, b word) bool { return a.at.Equal(b.at) && maps.EqualFunc(a.asks, b.asks, sameAsked) }

func sameAsked(a, b model.Request) bool { return sameRequest(&a, &b) }

// agentStore stores the leases of agents. Their namespace may contain other leases: an agent's
// has its node as its name and as its holder.
func (c *Controller) agentStore() cache.ReflectorStore {
	said := map[string]asking{}
	return &store[word]{
		convert: func(object any) (*kept[word], error) {
			l, ok := object.(*coordinationv1.Lease)
			if !ok {
				return nil, fmt.Errorf("it holds a %T, not a lease", object)
			}
			k := &kept[word]{namespace: l.Namespace, name: l.Name, key: l.Name}
			foreign := l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != l.Name
			if k.faulty = l.Name == "" || foreign || l.Spec.RenewTime == nil; !k.faulty {
				k.fact = word{l.Spec.RenewTime.Time, c.askedIn(l)}
			}
			return k, nil
		},
		same: sameWord,
		changed: func(name string, _, w word) {
			c.inbox.renewed(true, name, w.at)
			if !maps.EqualFunc(said[name], w.asks, sameAsked) {
				said[name] = w.asks
				c.inbox.put(agentAsks{name, w.asks})
			}
		},
		gone: func(name string, _ word) {
			c.inbox.renewed(true, name, time.Time{})
			if len(said[name]) > 0 {
				c.inbox.put(agentAsks{name, nil})
			}
			delete(said, name)
		},
		synced: c.syncing(),
	}
}

// askedIn parses the requests of a lease. Invalid ones are ignored.
func (c *Controller) askedIn(l *coordinationv1.Lease) asking {
	if c.parts.RequestedIn == nil || len(l.Annotations) == 0 {
		return nil
	}
	asks, err := c.parts.RequestedIn(l.Annotations)
	if err != nil {
		c.warnings.once("the lease of the agent on "+l.Name, err.Error()+": nothing follows from it")
		return nil
	}
	return asks
}

// agentAsks is a change of the evictions requested by the agent of a node.
type agentAsks struct {
	node string
	asks asking
}

func (e agentAsks) apply(c *Controller, now time.Time) {
	concerned := slices.Concat(slices.Collect(maps.Keys(c.asks[e.node])), slices.Collect(maps.Keys(e.asks)))
	if c.asks[e.node] = e.asks; len(e.asks) == 0 {
		delete(c.asks, e.node)
	}
	for _, uid := range concerned {
		if p, is := c.pods.get(uid); is {
			podSeen{p}.apply(c, now)
		}
	}
}

// asked returns the pod with the request in the lease of its own node's agent. Requests for pods
// of other nodes are ignored. The pod's own mark takes precedence.
func (c *Controller) asked(p *model.Pod) *model.Pod {
	r, is := c.asks[p.Node][p.UID]
	if !is || p.Asked != nil {
		return p
	}
	q := *p
	q.Asked = &r
	return &q
}
