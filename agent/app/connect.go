package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/cgroupnotify"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/stats"
)

// openAPI connects to the API server, if there is one.
func (a *app) openAPI(ctx context.Context) error {
	connection, err := client.Connect(client.Options{Kubeconfig: a.config.Kubeconfig, NodeName: a.config.NodeName,
		UserAgent: "plimsoll-agent/" + a.Version, Choices: a.choices, Failed: a.countFailure, Log: a.log})
	if err != nil {
		return err
	}
	if !connection.Configured() {
		a.log.Info("Running without an API server: pods come from --pod-manifests, evictions are reported in this log only")
		return nil
	}
	a.api = connection
	a.apiNode = client.WatchNode(ctx, connection, a.noteClusterChange)
	if a.config.PodManifests != "" {
		return nil
	}
	a.apiPods = watchPods(ctx, connection, a.choices, a.state, a.log)
	a.node.source = a.apiPods
	return nil
}

// openRuntime finds the container runtime, and opens disks and directories with the places
// of images and layers that it reports. It does not wait for an answer.
func (a *app) openRuntime(ctx context.Context) error {
	c := a.config
	endpoint, err := cri.Locate(c.ContainerRuntimeEndpoint, c.HostRoot)
	switch {
	case errors.Is(err, cri.ErrNoRuntime):
		a.log.Info("Running without a container runtime: no garbage collection, and no measurement of writable layers", "reason", err)
	case err != nil:
		return err
	default:
		if a.runtime, err = cri.Open(cri.Options{Endpoint: endpoint, Timeout: c.RuntimeRequestTimeout}); err != nil {
			return err
		}
		a.closers = append(a.closers, func() { _ = a.runtime.Close() })
	}
	disks := stats.DiskOptions{HostRoot: c.HostRoot, NodeDirectory: nearestExisting(c.HostRoot, c.RootDir)}
	directories := stats.DirectoryOptions{HostRoot: c.HostRoot, KubeletRoot: c.RootDir, PodLogs: c.PodLogsDir}
	if a.runtime != nil {
		disks.Filesystems = a.runtime.ImageFilesystems
		directories.Layers, directories.Containers = a.runtime.ContainerStats, a.runtime.Containers
	}
	a.node.disks, a.node.directories = stats.OpenDisks(disks), stats.OpenDirectories(directories)
	a.node.onDisks = stats.NewDiskConsumers(a.node.disks, a.node.directories)
	a.group.Go(func() { a.node.disks.Run(ctx) })
	if a.runtime != nil {
		a.group.Go(func() { a.watchRuntime(ctx) })
		a.group.Go(func() { a.node.sandboxes.watch(ctx, a.runtime.Sandboxes) })
	}
	if a.runtime != nil && a.apiPods != nil {
		renew := a.node.sandboxes.renew
		a.apiPods.onSandboxChange.Store(&renew)
		a.group.Go(func() { a.apiPods.followRuntime(ctx, a.runtime) })
	}
	return a.openProvider()
}

// runtimeHealthPeriod is the interval between checks that the runtime answers.
const runtimeHealthPeriod = 10 * time.Second

func (a *app) watchRuntime(ctx context.Context) {
	repeat(ctx, runtimeHealthPeriod, func() bool {
		_, err := a.runtime.Version(ctx)
		if ctx.Err() != nil {
			return false
		}
		if a.runtimeHealth.Set(err); err != nil {
			a.metrics.RuntimeFailed()
		}
		return true
	})
}

// openProvider opens the configured source of pod measurements. Where it has no recent
// value, the cgroups are read. Returns an error if the source can not be opened.
func (a *app) openProvider() (err error) {
	c := a.config
	capacity, _ := stats.MachineMemory(c.ProcRoot) // 0, if it is not known, bounds nothing
	sampling := stats.Sampling{Period: c.MonitoringPeriod, Capacity: capacity, Fallback: a.node.cgroups}
	switch c.StatsProvider {
	case "cri":
		if a.runtime == nil {
			return fmt.Errorf("%s: %q needs a container runtime: give --container-runtime-endpoint", c.Where("statsProvider"), c.StatsProvider)
		}
		a.node.provider = stats.OpenCRI(a.runtime, sampling)
	case "cadvisor":
		var embedded *stats.CAdvisor
		if embedded, err = stats.OpenCAdvisor(c.NodeCgroup, sampling); err == nil {
			a.node.provider = embedded
		}
	}
	return err
}

// openNotifier opens the notifications that this kernel has. It returns nil if there are
// none: the timer alone wakes the loop then, and all guarantees hold.
func (a *app) openNotifier() *cgroupnotify.Notifier {
	if a.config.KernelNotifications == "off" {
		a.log.Info("Kernel notifications are disabled, checking by the timer only")
		return nil
	}
	n, err := cgroupnotify.Open(cgroupnotify.Options{ProcRoot: a.config.ProcRoot, Hierarchy: a.node.hierarchy,
		NodeCgroup: a.config.NodeCgroup, Places: a.node.places, Report: a.logSource})
	if err != nil {
		a.log.Warn("Kernel notifications are unavailable, checking by the timer only", "error", err)
		return nil
	}
	a.closers = append(a.closers, func() { _ = n.Close() })
	a.node.stalls = stats.OpenStallsAt(a.node.hierarchy, a.config.NodeCgroup, a.node.places)
	for _, s := range n.Sources() {
		a.logSource(s)
	}
	return n
}

// logSource logs a source of notifications, or why it is not available.
func (a *app) logSource(s cgroupnotify.Source) {
	a.metrics.Source(s.Name, s.Where, s.Err == nil)
	if s.Err != nil {
		a.log.Info("Kernel notification is unavailable", "source", s.Name, "path", s.Where, "reason", s.Err)
		return
	}
	a.log.Info("Subscribed to kernel notification", "source", s.Name, "path", s.Where)
}

// notifications describes all sources of notifications in one line.
func (a *app) notifications() string {
	if a.notifier == nil {
		return "none, checks follow the timer alone"
	}
	var parts []string
	for _, s := range a.notifier.Sources() {
		part := s.Name + " on " + s.Where
		if s.Err != nil {
			part = "not " + part + " (" + s.Err.Error() + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// wakers returns the notifier for the wait between checks, and the source of stalls by pod;
// both nil without notifications.
func (a *app) wakers() (agent.Notifier, agent.Stalls) {
	if a.notifier == nil {
		return nil, nil
	}
	return a.notifier, a.node
}
