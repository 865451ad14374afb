package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// nodeRules are all rules for a node.
var nodeRules = slices.Concat(machineRules, agentRules, kubeletRules, serverRules, unknownRules)

// oldestMajor and oldestMinor are the oldest kernel with pidfd_open(2). Older ones have no
// cgroup.kill either, so no process can be ended safely.
const oldestMajor, oldestMinor = 5, 3

// Differences of clocks above these limits make timestamps, and then leases, misleading. A
// kubelet's lease lasts 40 s.
const (
	skewNoticed = 2 * time.Second
	skewHarmful = 30 * time.Second
)

var machineRules = []rule[Facts]{
	{Code{"kernel-old", Error, "The kernel is older than 5.3, without pidfds and cgroup.kill: no process can be killed safely.",
		"run a kernel of 5.3 or later, better 5.15, which also frees the memory of a dying process at once"},
		func(f *Facts) []trouble { return one(oldKernel(f.KernelRelease.Value)) }},
	{Code{"cgroups-unusable", Error, "The cgroup file systems cannot be used.",
		"mount the host's cgroup file systems, and set --cgroup-root"},
		func(f *Facts) []trouble { return one(f.Cgroups.Value.Fault) }},
	{Code{"cgroup-controller-missing", Error, "A cgroup controller that the agent needs (memory, pids) is missing.",
		"enable it: on v2 in cgroup.subtree_control of the root, on v1 mount it; check the kernel's command line for cgroup_disable= or cgroup_enable="},
		func(f *Facts) []trouble {
			missing := f.Cgroups.Value.Missing
			return when(len(missing) > 0, "cgroup controllers are missing: "+listed(missing))
		}},
	{Code{"cgroup-v1", Info, "Memory is accounted by cgroup v1: pods are killed process by process, without memory.events.",
		"move the node to cgroup v2; from 1.35 on the kubelet starts on v1 only with failCgroupV1: false"},
		func(f *Facts) []trouble {
			return when(f.Cgroups.Value.Version == 1 && !f.Cgroups.Value.Hybrid, "memory is accounted by cgroup v1")
		}},
	{Code{"cgroup-hybrid", Info, "cgroup v1 and v2 are mounted beside each other; memory is accounted by v1.",
		"move the node to cgroup v2 (systemd.unified_cgroup_hierarchy=1); from 1.35 on the kubelet starts on v1 only with failCgroupV1: false"},
		func(f *Facts) []trouble {
			return when(f.Cgroups.Value.Hybrid, "memory is accounted by cgroup v1, with an empty v2 tree beside it")
		}},
	{Code{"cgroup-kill-missing", Info, "cgroup v2 has no cgroup.kill before Linux 5.14: pods are killed process by process, which takes longer and needs the host's PID namespace.",
		"run a kernel of 5.14 or later, and keep hostPID: true until then"},
		func(f *Facts) []trouble { return when(f.Cgroups.Value.NoKill, "the kernel has no cgroup.kill") }},
	{Code{"psi-off", Warning, "The kernel offers no pressure stall information: stalls of tasks that wait for memory trigger no check.",
		"start the kernel with psi=1, or set --kernel-notifications=off if this is intended"},
		func(f *Facts) []trouble { return one(f.StallFault.Value) }},
	{Code{"swap-on", Warning, "Swap is on: thresholds ignore it, and a node that swaps is slow before its memory is short.",
		"switch it off (swapoff -a, and remove it from /etc/fstab), or raise the thresholds so that the agent acts before the node swaps"},
		func(f *Facts) []trouble {
			return when(f.Swap.Value > 0, fmt.Sprintf("%s of swap are on: thresholds ignore it", signals.Format(signals.Amount(f.Swap.Value), signals.UnitBytes)))
		}},
	{Code{"systemd-oomd", Warning, "systemd-oomd runs: it kills whole cgroups where ManagedOOM is set, without regard to pods.",
		"systemctl disable --now systemd-oomd, or check that oomctl lists no cgroup of kubepods"},
		func(f *Facts) []trouble { return running(f, func(name string) bool { return name == "systemd-oomd" }) }},
	{Code{"other-eviction-agent", Error, "Another program kills pods or processes when memory is short: both would act on the same shortage.",
		"stop it, or switch its evictions off and accept this finding"},
		func(f *Facts) []trouble { return append(running(f, isEvictor), evictorImages(f)...) }},
	{Code{"two-agents", Error, "Two agents run on this node: both would evict for the same shortage.",
		"stop one of them; use either the DaemonSet or the systemd service"},
		func(f *Facts) []trouble { return one(twoAgents(f)) }},
}

var agentRules = []rule[Facts]{
	{Code{"pods-source-missing", Error, "The agent has no source of pods: neither an API server nor a directory of manifests. It cannot evict any.",
		"set --kubeconfig, run the agent in a pod with a service account, or set --pod-manifests"},
		func(f *Facts) []trouble { return one(noPodSource(f)) }},
	{Code{"pods-cgroup-missing", Error, "The cgroups of the node's pods are not where the agent expects them. It cannot evict any.",
		"set --kubelet-config, which has cgroupRoot, or --kubelet-cgroup-root; check that --cgroup-root is where the host's cgroups are mounted, and that the kubelet has cgroupsPerQOS"},
		func(f *Facts) []trouble { return one(noPodCgroup(f)) }},
	{Code{"state-not-writable", Warning, "The agent's state cannot be written: timers, conditions and pending statuses are lost with every restart.",
		"make the directory of --state-file writable for the agent, or set another one"},
		func(f *Facts) []trouble { return one(f.StateFault.Value) }},
	{Code{"disarmed-by-file", Info, "The disarm file exists: the agent changes nothing, regardless of the settings in the cluster.",
		"find out why it was created. Then remove it: rm on the node, or kubectl -n plimsoll-system exec POD -- /plimsoll arm --local in the agent's pod"},
		func(f *Facts) []trouble {
			return when(f.Disarmed.Value, f.Ours.DisarmFile+" exists: the agent is disarmed")
		}},
	{Code{"threshold-small", Warning, "Memory that fills at --max-fill-rate would be exhausted before a kill could free any.",
		"raise the threshold, or set --max-fill-rate to what can fill memory here"},
		smallThresholds},
	{Code{"kernel-log-unreadable", Info, "The kernel's log cannot be read: OOM kills of the kernel are counted, and not explained.",
		"set agent.kernelLog=true in the chart; for the systemd service see docs/how-to/troubleshoot.md; without it the agent evicts as before"},
		func(f *Facts) []trouble { return one(f.KernelLogFault.Value) }},
}

// oldKernel reports a release if it is too old or unreadable.
func oldKernel(release string) string {
	if release == "" {
		return ""
	}
	major, minor, ok := twoNumbers(release)
	switch {
	case !ok:
		return fmt.Sprintf("the kernel calls itself %q, which has no version", release)
	case major < oldestMajor || major == oldestMajor && minor < oldestMinor:
		return fmt.Sprintf("the kernel is %s, older than %d.%d", release, oldestMajor, oldestMinor)
	}
	return ""
}

// twoNumbers returns the first two numbers of a version, such as 5 and 15 of 5.15.0-91-generic.
func twoNumbers(version string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(version, ".")
	second := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if len(second) == 0 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(second[0])
	return major, minor, err == nil
}

// evictors are programs that end pods or processes when memory is short. The names are those of
// their processes, at most 15 bytes, and of their images.
var evictors = []string{"koordlet", "katalyst-agent", "crane-agent", "volcano-agent", "vc-agent", "earlyoom", "nohang", "nohang-desktop", "oomd", "oomd_bin", "bustd", "thrash-protect"}

func isEvictor(name string) bool { return slices.Contains(evictors, name) }

func running(f *Facts, is func(name string) bool) (found []trouble) {
	for _, p := range f.Processes.Value {
		if is(p.Name) {
			found = append(found, trouble{what: fmt.Sprintf("%s runs as process %d", p.Name, p.PID)})
		}
	}
	return found
}

// evictorImages reports pods of the node with an image of such a program, unless its process was
// found.
func evictorImages(f *Facts) (found []trouble) {
	if f.Server == nil {
		return nil
	}
	seen := func(name string) bool {
		return slices.ContainsFunc(f.Processes.Value, func(p Process) bool { return p.Name == name })
	}
	for _, image := range f.Server.Images.Value {
		if name := imageName(image); isEvictor(name) && !seen(name) {
			found = append(found, trouble{what: fmt.Sprintf("a pod of this node runs %s", image)})
		}
	}
	return found
}

// imageName returns the last part of an image's name, such as koordlet of
// registry.example:5000/koordinator-sh/koordlet:v1.6@sha256:….
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	last := image[strings.LastIndex(image, "/")+1:]
	name, _, _ := strings.Cut(last, ":")
	return name
}

func twoAgents(f *Facts) string {
	var pids []string
	for _, p := range f.Processes.Value {
		if p.Name == "plimsoll" && len(p.Args) > 1 && p.Args[1] == "agent" && nodeCgroup(p.Args, f.Ours.NodeCgroup) == f.Ours.NodeCgroup {
			pids = append(pids, strconv.Itoa(p.PID))
		}
	}
	if len(pids) < 2 {
		return ""
	}
	return "plimsoll agent runs as processes " + listed(pids)
}

// nodeCgroup returns the node cgroup of an agent's command line. For a command line with an
// unreadable configuration file instead, it returns ours.
func nodeCgroup(args []string, ours string) string {
	if given, is := kubeletconfig.Flag(args, "node-cgroup"); is {
		return given
	}
	if _, file := kubeletconfig.Flag(args, "config"); file {
		return ours
	}
	return "/"
}

// smallThresholds reports hard memory thresholds that do not protect up to the fill rate, of those for one signal the
// one that acts first. For the limit of all pods it reports a threshold that is set for it alone, unless the kubelet acts
// there first.
func smallThresholds(f *Facts) (found []trouble) {
	hard := first(f.Ours.lines(isHard), f.Capacity.Value)
	for _, s := range []signals.Signal{signals.MemoryAvailable, signals.AllocatableMemoryAvailable} {
		l, there := hard[s]
		amount := l.Of(f.Capacity.Value.Of(s))
		if !there || amount == 0 {
			continue
		}
		if s == signals.AllocatableMemoryAvailable && (l.Text == hard[signals.MemoryAvailable].Text || f.Kubelet.Value.Config.ActsAt(l, f.Capacity.Value.Of)) {
			continue // derived from the other one, or of no effect
		}
		if protected := eviction.ProtectedRate(amount); protected < f.Ours.MaxFillRate {
			found = append(found, trouble{
				what: fmt.Sprintf("%s protects up to %s/s; memory may fill at %s/s", l, rate(protected), rate(f.Ours.MaxFillRate)),
				remedy: fmt.Sprintf("raise the threshold to %dMi, or set --max-fill-rate to what can fill memory here",
					eviction.ThresholdFor(f.Ours.MaxFillRate)>>20),
			})
		}
	}
	return found
}

func rate(perSecond signals.Bytes) string { return fmt.Sprintf("%dMi", perSecond>>20) }
