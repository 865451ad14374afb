// Package examine has the doctor look at a node or a cluster for the configuration of an
// agent, and writes what was found.
//
// Facts come from package probe, what they mean from package doctor: this one says where
// to look, and changes nothing.
package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// Node looks at this node as an agent of that configuration finds it.
func Node(ctx context.Context, c *config.Agent, version string) ([]doctor.Finding, error) {
	api, err := client.Connect(client.Options{Kubeconfig: c.Kubeconfig, NodeName: c.NodeName, UserAgent: "plimsoll-doctor/" + version})
	if err != nil {
		return nil, err
	}
	var runtime *cri.Client
	endpoint, fault := RuntimeEndpoint(c)
	if fault == nil {
		if runtime, err = cri.Open(cri.Options{Endpoint: endpoint, Timeout: c.RuntimeRequestTimeout}); err != nil {
			return nil, err
		}
		defer func() { _ = runtime.Close() }()
	}
	o, err := Options(c, api, runtime, fault)
	if err != nil {
		return nil, err
	}
	o.AskKubelet = true
	return doctor.Examine(probe.Node(ctx, o)), nil
}

// Options says where an agent of that configuration looks. The runtime is nil
// with the fault that is why.
func Options(c *config.Agent, api *client.Connection, runtime *cri.Client, fault error) (probe.NodeOptions, error) {
	lines, err := ourLines(c)
	if err != nil {
		return probe.NodeOptions{}, err
	}
	o := probe.NodeOptions{
		Ours: doctor.Ours{
			Lines: lines, MaxFillRate: c.FillRate(), Reclaim: c.Reclaim, StorageLimits: cmp.Or(limitsOff(c), c.LocalStorageLimits),
			PressureConditions: c.PressureConditions, NodeCgroup: c.NodeCgroup,
			PodManifests: c.PodManifests, DisarmFile: c.DisarmFile,
		},
		ProcRoot: c.ProcRoot, CgroupRoot: c.CgroupRoot, HostRoot: c.HostRoot,
		KubeletConfig: c.KubeletConfig, KubeletCgroupRoot: c.KubeletCgroupRoot, KubeletRoot: c.RootDir, StateFile: c.StateFile, Runtime: runtime,
	}
	if runtime == nil && fault != nil && c.ContainerRuntimeEndpoint != config.NoRuntime {
		o.RuntimeFault = strings.TrimPrefix(fault.Error(), ErrNoRuntime.Error()+": ")
	}
	if api != nil && api.Configured() {
		o.Client, o.NodeName = api.Client(), api.NodeName()
		o.Rights = doctor.Needs{
			Conditions: c.PressureConditions != "kubelet" && c.PressureConditions != "off",
			Taints:     c.PressureTaint, Direct: c.SoftEviction == "direct", NodeLease: c.ReportNodeLease, Reviews: healthz.BeyondLoopback(c.HealthzBindAddress),
			Namespace: c.HeartbeatNamespace, Arming: arming.ConfigMap, DaemonSet: os.Getenv("PLIMSOLL_DAEMONSET"),
		}.Rights()
	}
	return o, nil
}

func limitsOff(c *config.Agent) string {
	if !c.LocalStorageCapacityIsolation {
		return "off"
	}
	return ""
}

// ourLines are the thresholds of a configuration, without those that follow from
// what the node's disks turn out to be.
func ourLines(c *config.Agent) (lines []doctor.Line, err error) {
	policy, err := c.Policy(signals.Single)
	if err != nil {
		return nil, err
	}
	for _, t := range policy.Thresholds {
		line, err := kubeletconfig.ParseThreshold(t.Signal, t.Value.String())
		if err == nil && t.Signal.Definition().Filesystem != signals.Containerfs {
			lines = append(lines, doctor.Line{Threshold: line, Grace: t.Grace})
		}
	}
	return lines, nil
}

// Cluster looks at a cluster from outside.
func Cluster(ctx context.Context, c *config.Agent, version string) ([]doctor.Finding, error) {
	clients, err := client.DialAsUser(c.Kubeconfig, "plimsoll-doctor/"+version)
	if err != nil {
		return nil, err
	}
	return doctor.ExamineCluster(probe.Cluster(ctx, probe.ClusterOptions{Client: clients.Electing, Namespace: cmp.Or(c.HeartbeatNamespace, "plimsoll-system")})), nil
}

// ErrNoRuntime is the error of [RuntimeEndpoint] on a node without a container runtime.
var ErrNoRuntime = errors.New("none was asked for")

// RuntimeEndpoint is where the container runtime listens. One that was named
// has to be a valid endpoint; one that was not need not be there.
func RuntimeEndpoint(c *config.Agent) (string, error) {
	switch given := c.ContainerRuntimeEndpoint; given {
	case config.NoRuntime:
		return "", ErrNoRuntime
	case "":
		endpoint, err := cri.Find(c.HostRoot)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoRuntime, err)
		}
		return endpoint, nil
	default:
		endpoint, err := cri.ParseEndpoint(given)
		if socket, parsed := strings.CutPrefix(endpoint, "unix://"); parsed {
			return cri.ParseEndpoint(c.OnHost(socket))
		}
		return endpoint, err
	}
}
