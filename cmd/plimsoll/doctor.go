package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// errFound ends a doctor that found errors; what they are it has written.
var errFound = errors.New("this is not as it has to be: see the errors above")

// errBlind ends a doctor that found no error but could not look everywhere.
var errBlind = errors.New("not everything could be looked at: see the findings whose code begins with unknown-")

// examination is what a doctor is asked for.
type examination struct {
	file    string
	cluster bool
	output  string
}

func doctorCommand() *cobra.Command {
	var x examination
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps Plimsoll from protecting this node, or with --cluster a cluster, and say what to do",
		Long: `Looks at the kernel, the kubelet's configuration, the container runtime, other
programs that evict, the API server and the agent's rights there, for an agent
with the same --config and flags. With --cluster it looks at a cluster from
outside: agents, lifecycle controllers, admission policies. It changes nothing
and takes no longer than 10 s. docs/doctor.md has a table of all findings.

Exit status: 0 nothing worse than warnings, 1 not everything could be looked at,
2 invalid flags or configuration, 3 errors were found.`,
		Args: takesNothing,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&x.file, "config", "", "the agent's configuration file; flags win over it")
	cmd.Flags().BoolVar(&x.cluster, "cluster", false, "look at a cluster from outside of its nodes; --kubeconfig, KUBECONFIG, or the pod's own service account say which")
	cmd.Flags().StringVarP(&x.output, "output", "o", "text", "output format: text for people, json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if x.output != "text" && x.output != "json" {
			return invalidError{fmt.Errorf("--output: %q: must be text or json", x.output)}
		}
		c, err := config.Load(x.file, flags)
		if errors.As(err, new(strictyaml.Faults)) {
			return invalidError{err}
		}
		if err != nil {
			return err
		}
		return x.run(cmd.Context(), c, cmd.OutOrStdout())
	}
	return cmd
}

func (x *examination) run(ctx context.Context, c *config.Agent, out io.Writer) error {
	look := examineNode
	if x.cluster {
		look = examineCluster
	}
	found, err := look(ctx, c)
	if err != nil {
		return err
	}
	write := writeFindings
	if x.output == "json" {
		write = writeFindingsJSON
	}
	if err := write(out, found); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	switch {
	case doctor.Blind(found) && doctor.Worst(found) != doctor.Error:
		return errBlind
	case doctor.Worst(found) == doctor.Error:
		return errFound
	}
	return nil
}

// examineNode looks at this node as an agent of that configuration finds it.
func examineNode(ctx context.Context, c *config.Agent) ([]doctor.Finding, error) {
	api, err := client.Connect(client.Options{Kubeconfig: c.Kubeconfig, NodeName: c.NodeName, UserAgent: "plimsoll-doctor/" + version})
	if err != nil {
		return nil, err
	}
	var runtime *cri.Client
	endpoint, fault := runtimeEndpoint(c)
	if fault == nil {
		if runtime, err = cri.Open(cri.Options{Endpoint: endpoint, Timeout: c.RuntimeRequestTimeout}); err != nil {
			return nil, err
		}
		defer func() { _ = runtime.Close() }()
	}
	o, err := nodeSurvey(c, api, runtime, fault)
	if err != nil {
		return nil, err
	}
	o.AskKubelet = true
	return doctor.Examine(probe.Node(ctx, o)), nil
}

// nodeSurvey says where an agent of that configuration looks. The runtime is nil
// with the fault that is why.
func nodeSurvey(c *config.Agent, api *client.Connection, runtime *cri.Client, fault error) (probe.NodeOptions, error) {
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
		o.RuntimeFault = strings.TrimPrefix(fault.Error(), errNoRuntime.Error()+": ")
	}
	if api != nil && api.Configured() {
		o.Client, o.NodeName = api.Client(), api.NodeName()
		o.Rights = doctor.Needs{
			Conditions: c.PressureConditions != "kubelet" && c.PressureConditions != "off",
			Taints:     c.PressureTaint, Direct: c.SoftEviction == "direct", NodeLease: c.ReportNodeLease, Reviews: beyondLoopback(c.HealthzBindAddress),
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

// examineCluster looks at a cluster from outside.
func examineCluster(ctx context.Context, c *config.Agent) ([]doctor.Finding, error) {
	clients, err := dialCluster(c.Kubeconfig, "plimsoll-doctor")
	if err != nil {
		return nil, err
	}
	return doctor.ExamineCluster(probe.Cluster(ctx, probe.ClusterOptions{Client: clients.Electing, Namespace: cmp.Or(c.HeartbeatNamespace, "plimsoll-system")})), nil
}

// errNoCluster names every place that [dialCluster] looks at.
var errNoCluster = errors.New("no API server is known: give --kubeconfig, set KUBECONFIG, write ~/.kube/config, or run in a pod with a service account")

// dialCluster prepares to speak to the API server as an administrator does. Returns
// errNoCluster if nothing says where the server is.
func dialCluster(kubeconfig, userAgent string) (*client.Clients, error) {
	o := client.Options{Kubeconfig: kubeconfig, UserAgent: userAgent + "/" + version}
	if kubeconfig == "" {
		o.Kubeconfigs = kubeconfigs()
	}
	clients, err := client.Dial(o)
	if errors.Is(err, client.ErrNoServer) {
		return nil, errNoCluster
	}
	return clients, err
}

// kubeconfigs are the files that kubectl would merge: all that KUBECONFIG names, or
// that of the home directory unless this is a pod. None is the pod's service account.
func kubeconfigs() []string {
	if list := os.Getenv("KUBECONFIG"); list != "" {
		return filepath.SplitList(list)
	}
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		file := filepath.Join(home, ".kube", "config")
		if _, err := os.Stat(file); err == nil {
			return []string{file}
		}
	}
	return nil
}

func writeFindingsJSON(out io.Writer, found []doctor.Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if found == nil {
		found = []doctor.Finding{} // a list without entries, for scripts
	}
	return encoder.Encode(struct {
		Errors   int              `json:"errors"`
		Warnings int              `json:"warnings"`
		Findings []doctor.Finding `json:"findings"`
	}{doctor.Count(found, doctor.Error), doctor.Count(found, doctor.Warning), found})
}

func writeFindings(out io.Writer, found []doctor.Finding) error {
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
