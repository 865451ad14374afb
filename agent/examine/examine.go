// Package examine examines a node or a cluster for the configuration of an agent, and writes the
// findings.
//
// Packages probe and clusterprobe read facts, and package doctor derives findings from them. This package only
// derives their inputs from the configuration. It changes nothing.
package examine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/clusterprobe"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// Node returns the findings of this node for an agent with that configuration. Returns an error if
// the configuration cannot be used.
func Node(ctx context.Context, c *config.Agent, version string) ([]doctor.Finding, error) {
	api, err := client.Connect(client.Options{Kubeconfig: c.Kubeconfig, NodeName: c.NodeName, UserAgent: "plimsoll-doctor/" + version})
	if err != nil {
		return nil, err
	}
	var runtime *cri.Client
	endpoint, fault := cri.Locate(c.ContainerRuntimeEndpoint, c.HostRoot)
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

// Options returns the inputs of probe for an agent with that configuration. If the runtime is nil,
// fault is the reason. Returns an error if the thresholds are not valid.
func Options(c *config.Agent, api *client.Connection, runtime *cri.Client, fault error) (probe.NodeOptions, error) {
	lines, err := ourLines(c)
	if err != nil {
		return probe.NodeOptions{}, err
	}
	o := probe.NodeOptions{
		Ours: doctor.Ours{
			Lines: lines, MaxFillRate: c.FillRate(), Reclaim: c.GarbageCollection, StorageLimits: cmp.Or(limitsOff(c), c.LocalStorageLimits),
			PressureConditions: c.PressureConditions, NodeCgroup: c.NodeCgroup,
			PodManifests: c.PodManifests, DisarmFile: c.DisarmFile,
		},
		ProcRoot: c.ProcRoot, CgroupRoot: c.CgroupRoot, HostRoot: c.HostRoot,
		KubeletConfig: c.KubeletConfig, KubeletCgroupRoot: c.KubeletCgroupRoot, KubeletRoot: c.RootDir, StateFile: c.StateFile, Runtime: runtime,
	}
	if runtime == nil && fault != nil && c.ContainerRuntimeEndpoint != config.NoRuntime {
		o.RuntimeFault = strings.TrimPrefix(fault.Error(), cri.ErrNoRuntime.Error()+": ")
	}
	if api != nil && api.Configured() {
		o.Client, o.NodeName = api.Client(), api.NodeName()
		o.Rights = doctor.Needs{
			Conditions: c.PressureConditions != "kubelet" && c.PressureConditions != "off",
			Taints:     c.PressureTaint, Direct: c.SoftEviction == "direct", NodeLease: c.ReportNodeLease, Reviews: healthz.BeyondLoopback(c.HealthzBindAddress),
			Namespace: c.HeartbeatNamespace, Arming: arming.ConfigMap, DaemonSet: os.Getenv("PLIMSOLL_DAEMONSET"), Records: c.EvictionRecordNamespace,
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

// ourLines returns the thresholds of a configuration, without those that depend on the layout of
// the node's file systems.
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

// Cluster returns the findings of a cluster, seen from outside of its nodes. Returns an error if
// the API server is unknown.
func Cluster(ctx context.Context, c *config.Agent, version string) ([]doctor.Finding, error) {
	clients, err := client.DialAsUser(c.Kubeconfig, "plimsoll-doctor/"+version)
	if err != nil {
		return nil, err
	}
	return doctor.ExamineCluster(clusterprobe.Cluster(ctx, clusterprobe.Options{Client: clients.Electing, Namespace: cmp.Or(c.HeartbeatNamespace, "plimsoll-system")})), nil
}

// WriteJSON writes findings as one JSON object. Returns the error of out.
func WriteJSON(out io.Writer, found []doctor.Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if found == nil {
		found = []doctor.Finding{} // an empty list instead of null, for scripts
	}
	return encoder.Encode(struct {
		Errors   int              `json:"errors"`
		Warnings int              `json:"warnings"`
		Findings []doctor.Finding `json:"findings"`
	}{doctor.Count(found, doctor.Error), doctor.Count(found, doctor.Warning), found})
}

// WriteText writes findings as text, each with its remedy. Returns the error of out.
func WriteText(out io.Writer, found []doctor.Finding) error {
	var b strings.Builder
	for _, f := range found {
		where := ""
		if f.Node != "" {
			where = ", node " + f.Node
		}
		fmt.Fprintf(&b, "%s %s%s\n  %s\n  Remedy: %s\n", f.Severity, f.Code, where, f.What, f.Remedy)
	}
	fmt.Fprintf(&b, "%d errors, %d warnings, %d infos\n", doctor.Count(found, doctor.Error), doctor.Count(found, doctor.Warning), doctor.Count(found, doctor.Info))
	_, err := io.WriteString(out, b.String())
	return err
}
