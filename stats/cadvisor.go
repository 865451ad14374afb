package stats

import (
	"context"
	"flag"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/cadvisor/cache/memory"
	"github.com/google/cadvisor/container"
	v2 "github.com/google/cadvisor/info/v2"
	cadvisor "github.com/google/cadvisor/manager"
	"github.com/google/cadvisor/utils/sysfs"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// CAdvisor measures pods with an embedded cAdvisor, the source of a kubelet's figures. It
// samples every period, and when a measurement is prepared or made. Containers have their IDs
// as names.
//
// cAdvisor reads the cgroups where they are mounted for this process, independent of the
// agent's configured roots. It counts the processes in this process's PID namespace. A program
// can hold only one CAdvisor at a time, because cAdvisor stores its settings in global
// variables. Goroutines of its watch cgroups until these are removed, also after Close.
type CAdvisor struct {
	*sampler
	reader cadvisor.Manager
}

// OpenCAdvisor starts a cAdvisor for the pods below the node's cgroup. It reads all cgroups of
// the machine once and watches for new ones. Returns an error if cAdvisor does not start.
func OpenCAdvisor(nodeCgroup string, o Sampling) (*CAdvisor, error) {
	reader, err := startReader(podRoots(nodeCgroup))
	if err != nil {
		return nil, fmt.Errorf("start cAdvisor: %w; use another --stats-provider", err)
	}
	return &CAdvisor{startSampler(o, func(context.Context) (map[string]signals.Usage, error) {
		return queryCAdvisor(reader, minSampleInterval)
	}), reader}, nil
}

// podRoots returns the path prefixes of pod cgroups, for either cgroup driver.
func podRoots(nodeCgroup string) []string {
	node := path.Join("/", nodeCgroup)
	roots := []string{path.Join(node, "kubepods")} // also matches kubepods.slice
	if parent, isSlice := strings.CutSuffix(path.Base(node), ".slice"); isSlice {
		roots = append(roots, path.Join(node, parent+"-kubepods"))
	}
	return roots
}

// wanted lists the metrics that cAdvisor reads. Processes require the cpu controller's path on
// version 1.
var wanted = container.MetricSet{container.MemoryUsageMetrics: {}, container.ProcessMetrics: {}, container.CpuUsageMetrics: {}}

// applySettings applies cAdvisor's settings once, because goroutines of an earlier cAdvisor
// read them. Samples are taken on request; background housekeeping runs as rarely as a
// kubelet's.
var applySettings = sync.OnceValue(func() error {
	*cadvisor.HousekeepingInterval = defaultPeriod
	return flag.Set("disable_root_cgroup_stats", "true")
})

func startReader(roots []string) (cadvisor.Manager, error) {
	if err := applySettings(); err != nil {
		return nil, fmt.Errorf("leave out the machine: %w", err)
	}
	period, dynamic := defaultPeriod, false
	reader, err := cadvisor.New(memory.New(2*period, nil), sysfs.NewRealSysFs(),
		cadvisor.HousekeepingConfig{Interval: &period, AllowDynamic: &dynamic}, wanted, nil, roots, nil, "", 0)
	if err != nil {
		return nil, err
	}
	if err := reader.Start(); err != nil {
		container.ClearContainerHandlerFactories()
		return nil, err
	}
	return reader, nil
}

// queryCAdvisor reads every cgroup with figures older than age. An unreadable cgroup is no
// error of the sample, because most of these have been removed.
func queryCAdvisor(reader cadvisor.Manager, age time.Duration) (map[string]signals.Usage, error) {
	infos, err := reader.GetContainerInfoV2("/", v2.RequestOptions{IdType: v2.TypeName, Recursive: true, Count: 1, MaxAge: &age})
	if infos == nil {
		return nil, fmt.Errorf("read the usage of pods from cAdvisor: %w", err)
	}
	return usagesOfCgroups(infos), nil
}

// usagesOfCgroups converts the usage of cgroups to that of pods. Memory is that of the pod's
// cgroup; processes are those of the pod's cgroup and all below it.
func usagesOfCgroups(infos map[string]v2.ContainerInfo) map[string]signals.Usage {
	usages := map[string]signals.Usage{}
	unread := map[string]bool{} // pods with uncountable processes
	for name, info := range infos {
		uid, below := podOf(name)
		if uid == "" {
			continue
		}
		read := readingOf(&info)
		u := usages[uid]
		u.Processes.Value += read.processes.Value
		unread[uid] = unread[uid] || !read.processes.Known
		switch {
		case below == "":
			u.Time, u.Memory = read.time, read.memory
		case !strings.Contains(below, "/"):
			u.Containers = append(u.Containers, signals.ContainerUsage{Name: cgroup.ContainerName(below), Memory: read.memory})
		}
		usages[uid] = u
	}
	for uid, u := range usages {
		// 0 also stands for processes that could not be counted.
		if u.Processes.Known = !unread[uid] && u.Processes.Value > 0; !u.Processes.Known {
			u.Processes.Value = 0
		}
		usages[uid] = u
	}
	return usages
}

// podOf returns the UID of the pod that a cgroup belongs to, and the path below the pod's
// cgroup.
func podOf(name string) (uid, below string) {
	for at := name; at != "/" && at != "."; at = path.Dir(at) {
		if uid, ok := cgroup.ParsePodPath(at); ok {
			return uid, strings.TrimPrefix(strings.TrimPrefix(name, at), "/")
		}
	}
	return "", ""
}

// reading is one sample of one cgroup.
type reading struct {
	time      time.Time
	memory    signals.Measured[signals.Bytes]
	processes signals.Measured[signals.PIDs]
}

func readingOf(info *v2.ContainerInfo) reading {
	if len(info.Stats) == 0 {
		return reading{}
	}
	last := info.Stats[len(info.Stats)-1]
	r := reading{time: last.Timestamp}
	// A usage of 0 also stands for an unreadable cgroup.
	if m := last.Memory; m != nil && m.Usage > 0 && m.WorkingSet <= absurd {
		r.memory = signals.Of(signals.Bytes(m.WorkingSet))
	}
	if p := last.Processes; p != nil && p.ProcessCount <= maxPIDs {
		r.processes = signals.Of(signals.PIDs(p.ProcessCount))
	}
	return r
}

// Close stops cAdvisor.
func (c *CAdvisor) Close() {
	c.sampler.Close()
	_ = c.reader.Stop() // its error only reports an earlier failure of a goroutine
	container.ClearContainerHandlerFactories()
}
