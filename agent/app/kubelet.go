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
type kubeletDetector struct {
	config        *config.Agent
	node          *client.Node            // nil without an API server
	searchPods    func(cgroupRoot string) // for pods, below the kubelet's cgroup root too
	kubeletConfig atomic.Pointer[kubeletconfig.Config]
	file          atomic.Bool // there is one, whether it can be used or not
	lastFault     string      // of the last reading, as it was told
	log           *slog.Logger
}

// neighbourPeriod is how often the kubelet's configuration is read again: it
// changes when somebody works on the node.
const kubeletPeriod = time.Minute

func detectKubelet(c *config.Agent, node *client.Node, search func(cgroupRoot string), log *slog.Logger) *kubeletDetector {
	n := &kubeletDetector{config: c, node: node, searchPods: search, log: log}
	n.read()
	return n
}

func (k *kubeletDetector) watch(ctx context.Context) {
	repeat(ctx, kubeletPeriod, func() bool {
		k.read()
		return true
	})
}

// read takes over the kubelet's configuration. One that can not be read stays
// what it was.
func (k *kubeletDetector) read() {
	sources, err := probe.KubeletSources(k.config.ProcRoot, k.config.HostRoot, k.config.KubeletConfig)
	k.file.Store(!errors.Is(err, fs.ErrNotExist))
	if errors.Is(err, fs.ErrNotExist) {
		k.kubeletConfig.Store(nil)
		k.searchPods(k.config.KubeletCgroupRoot)
		return
	}
	if err == nil {
		var read kubeletconfig.Config
		if read, err = sources.Read(); err == nil {
			k.kubeletConfig.Store(&read)
			k.searchPods(cmp.Or(k.config.KubeletCgroupRoot, read.CgroupRoot))
			k.lastFault = ""
			return
		}
	}
	if k.lastFault != err.Error() {
		k.lastFault = err.Error()
		k.log.Warn("the kubelet's configuration can not be used: what it reports and enforces is not known",
			"kubeletConfig", k.config.KubeletConfig, "error", err)
	}
}

// thresholds are the kubelet's, nil if they are not known.
func (k *kubeletDetector) thresholds() *kubeletconfig.Config { return k.kubeletConfig.Load() }

// there reports whether there is a kubelet; known is false as long as the API
// server has not said.
func (k *kubeletDetector) present() (there, known bool) {
	switch {
	case k.file.Load():
		return true, true
	case k.node == nil:
		return false, true
	}
	return k.node.KubeletVersion() != "", k.node.Synced()
}

// reclaims reports whether the agent collects waste: beside a kubelet, which
// does, only if told to. As long as nobody knows, nothing is removed.
func (k *kubeletDetector) leavesGC() bool {
	there, known := k.present()
	return k.config.Reclaim == "on" || k.config.Reclaim == "auto" && known && !there
}

// limits reports whether the agent evicts pods above local-storage limits, so
// that of two only one does.
func (k *kubeletDetector) leavesLimits() bool {
	if !k.config.LocalStorageCapacityIsolation || k.config.LocalStorageLimits == "off" {
		return false
	}
	there, known := k.present()
	kubelet := k.thresholds()
	return k.config.LocalStorageLimits == "on" || known && !there || kubelet != nil && !kubelet.StorageLimits
}

// policies are what is decided by, for what the node turns out to be made of.
type policies struct {
	config   *config.Agent
	disks    *stats.Disks
	kubelet  *kubeletDetector
	log      *slog.Logger
	compiled map[policyKey]*eviction.Policy
	last     policyKey
	latest   atomic.Pointer[eviction.Policy]
}

type policyKey struct {
	layout signals.Layout
	limits bool
}

func newPolicies(c *config.Agent, disks *stats.Disks, n *kubeletDetector, log *slog.Logger) *policies {
	p := &policies{config: c, disks: disks, kubelet: n, log: log, compiled: map[policyKey]*eviction.Policy{}}
	if first, err := c.Policy(p.last.layout); err == nil {
		p.latest.Store(first) // those beside the loop may ask before it begins
	}
	return p
}

// current is the policy for now. A layout that is not known any more stays what
// it was. The configuration was compiled before: it has no faults.
func (p *policies) current() *eviction.Policy {
	key := policyKey{p.last.layout, p.kubelet.leavesLimits()}
	if layout, known := p.disks.Layout(); known {
		key.layout = layout
	}
	if made := p.compiled[key]; made != nil {
		p.last = key
		p.latest.Store(made)
		return made
	}
	c := *p.config
	c.LocalStorageCapacityIsolation = key.limits
	policy, err := c.Policy(key.layout)
	if err != nil {
		p.log.Error("go on with the policy of before", "error", err)
		return p.compiled[p.last]
	}
	p.log.Info("deciding by", "thresholds", fmt.Sprint(policy.Thresholds), "filesystems", key.layout.String(), "localStorageLimits", key.limits)
	p.compiled[key], p.last = policy, key
	p.latest.Store(policy)
	return policy
}

// shown is the current policy for those beside the loop.
func (p *policies) published() *eviction.Policy { return p.latest.Load() }
