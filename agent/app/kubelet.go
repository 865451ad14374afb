package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/stats"
)

// neighbour is the kubelet beside the agent, if there is one: what it does by
// itself is left to it.
type neighbour struct {
	config *config.Agent
	node   *client.Node            // nil without an API server
	search func(cgroupRoot string) // for pods, below the kubelet's cgroup root too
	found  atomic.Pointer[kubeletconfig.Config]
	file   atomic.Bool // there is one, whether it can be used or not
	fault  string      // of the last reading, as it was told
	log    *slog.Logger
}

// neighbourPeriod is how often the kubelet's configuration is read again: it
// changes when somebody works on the node.
const neighbourPeriod = time.Minute

func meetNeighbour(c *config.Agent, node *client.Node, search func(cgroupRoot string), log *slog.Logger) *neighbour {
	n := &neighbour{config: c, node: node, search: search, log: log}
	n.read()
	return n
}

func (n *neighbour) watch(ctx context.Context) {
	again(ctx, neighbourPeriod, func() bool {
		n.read()
		return true
	})
}

// read takes over the kubelet's configuration. One that can not be read stays
// what it was.
func (n *neighbour) read() {
	sources, err := probe.KubeletSources(n.config.ProcRoot, n.config.HostRoot, n.config.KubeletConfig)
	n.file.Store(!errors.Is(err, fs.ErrNotExist))
	if errors.Is(err, fs.ErrNotExist) {
		n.found.Store(nil)
		n.search(n.config.KubeletCgroupRoot)
		return
	}
	if err == nil {
		var read kubeletconfig.Config
		if read, err = sources.Read(); err == nil {
			n.found.Store(&read)
			n.search(cmp.Or(n.config.KubeletCgroupRoot, read.CgroupRoot))
			n.fault = ""
			return
		}
	}
	if n.fault != err.Error() {
		n.fault = err.Error()
		n.log.Warn("the kubelet's configuration can not be used: what it reports and enforces is not known",
			"kubeletConfig", n.config.KubeletConfig, "error", err)
	}
}

// thresholds are the kubelet's, nil if they are not known.
func (n *neighbour) thresholds() *kubeletconfig.Config { return n.found.Load() }

// there reports whether there is a kubelet; known is false as long as the API
// server has not said.
func (n *neighbour) there() (there, known bool) {
	switch {
	case n.file.Load():
		return true, true
	case n.node == nil:
		return false, true
	}
	return n.node.KubeletVersion() != "", n.node.Synced()
}

// reclaims reports whether the agent collects waste: beside a kubelet, which
// does, only if told to. As long as nobody knows, nothing is removed.
func (n *neighbour) reclaims() bool {
	there, known := n.there()
	return n.config.Reclaim == "on" || n.config.Reclaim == "auto" && known && !there
}

// limits reports whether the agent evicts pods above local-storage limits, so
// that of two only one does.
func (n *neighbour) limits() bool {
	if !n.config.LocalStorageCapacityIsolation || n.config.LocalStorageLimits == "off" {
		return false
	}
	there, known := n.there()
	kubelet := n.thresholds()
	return n.config.LocalStorageLimits == "on" || known && !there || kubelet != nil && !kubelet.StorageLimits
}

// policies are what is decided by, for what the node turns out to be made of.
type policies struct {
	config    *config.Agent
	disks     *stats.Disks
	neighbour *neighbour
	log       *slog.Logger
	made      map[policyKey]*eviction.Policy
	last      policyKey
	latest    atomic.Pointer[eviction.Policy]
}

type policyKey struct {
	layout signals.Layout
	limits bool
}

func newPolicies(c *config.Agent, disks *stats.Disks, n *neighbour, log *slog.Logger) *policies {
	p := &policies{config: c, disks: disks, neighbour: n, log: log, made: map[policyKey]*eviction.Policy{}}
	if first, err := c.Policy(p.last.layout); err == nil {
		p.latest.Store(first) // those beside the loop may ask before it begins
	}
	return p
}

// current is the policy for now. A layout that is not known any more stays what
// it was. The configuration was compiled before: it has no faults.
func (p *policies) current() *eviction.Policy {
	key := policyKey{p.last.layout, p.neighbour.limits()}
	if layout, known := p.disks.Layout(); known {
		key.layout = layout
	}
	if made := p.made[key]; made != nil {
		p.last = key
		p.latest.Store(made)
		return made
	}
	c := *p.config
	c.LocalStorageCapacityIsolation = key.limits
	policy, err := c.Policy(key.layout)
	if err != nil {
		p.log.Error("go on with the policy of before", "error", err)
		return p.made[p.last]
	}
	p.log.Info("deciding by", "thresholds", fmt.Sprint(policy.Thresholds), "filesystems", key.layout.String(), "localStorageLimits", key.limits)
	p.made[key], p.last = policy, key
	p.latest.Store(policy)
	return policy
}

// shown is the current policy for those beside the loop.
func (p *policies) shown() *eviction.Policy { return p.latest.Load() }
