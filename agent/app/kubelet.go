package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// A kubeletDetector finds out whether a kubelet runs beside the agent, and by its
// configuration which duties are left to it.
type kubeletDetector struct {
	config        *config.Agent
	live          func() *config.Agent    // the configuration in force; nil: config
	node          *client.Node            // nil without an API server
	searchPods    func(cgroupRoot string) // also below the kubelet's cgroup root
	kubeletConfig atomic.Pointer[kubeletconfig.Config]
	file          atomic.Bool // the configuration file exists, readable or not
	lastFault     string      // of the last reading, as it was logged
	log           *slog.Logger
}

// kubeletPeriod is the interval between readings of the kubelet's configuration.
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

// read reads the kubelet's configuration. If that fails, the last one stays in place.
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
		k.log.Warn("Cannot use the kubelet's configuration, what it reports and enforces is unknown",
			"kubeletConfig", k.config.KubeletConfig, "error", err)
	}
}

// thresholds returns the kubelet's configuration; nil if it is not known.
func (k *kubeletDetector) thresholds() *kubeletconfig.Config { return k.kubeletConfig.Load() }

// present reports whether there is a kubelet; known is false until the API server has
// answered.
func (k *kubeletDetector) present() (present, known bool) {
	switch {
	case k.file.Load():
		return true, true
	case k.node == nil:
		return false, true
	}
	return k.node.KubeletVersion() != "", k.node.Synced()
}

// leavesGC reports whether garbage collection is left to the agent: without a kubelet, or if
// the configuration demands it. While that is not known, nothing is removed.
func (k *kubeletDetector) leavesGC() bool {
	present, known := k.present()
	return k.config.GarbageCollection == "on" || k.config.GarbageCollection == "auto" && known && !present
}

// leavesLimits reports whether eviction of pods above local-storage limits is left to the
// agent, so that only one of the two does it.
func (k *kubeletDetector) leavesLimits() bool {
	c := k.config
	if k.live != nil {
		c = k.live()
	}
	if !c.LocalStorageCapacityIsolation || c.LocalStorageLimits == "off" {
		return false
	}
	present, known := k.present()
	kubelet := k.thresholds()
	return c.LocalStorageLimits == "on" || known && !present || kubelet != nil && !kubelet.StorageLimits
}
