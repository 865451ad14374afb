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

// asking are the soft evictions that the agent of a node asks for in its own lease,
// having no right to mark pods: by UID.
type asking map[string]model.Request

// A word is an agent's lease: when it was renewed, and what it asks for.
type word struct {
	at   time.Time
	asks asking
}

func sameWord(a, b word) bool { return a.at.Equal(b.at) && maps.EqualFunc(a.asks, b.asks, sameAsked) }

func sameAsked(a, b model.Request) bool { return sameRequest(&a, &b) }

// agentStore keeps what agents say in their leases. Where those are there may be
// others: an agent's has its node as its name and its holder.
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

// askedIn reads what a lease asks for. Nothing follows from what is faulty.
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

// agentAsks: the agent of a node asks for other evictions than before.
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

// asked is the pod with what the agent of its own node asks for in its lease; an
// agent has no say about pods of other nodes. The pod's own mark goes first.
func (c *Controller) asked(p *model.Pod) *model.Pod {
	r, is := c.asks[p.Node][p.UID]
	if !is || p.Asked != nil {
		return p
	}
	q := *p
	q.Asked = &r
	return &q
}
