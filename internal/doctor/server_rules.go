package doctor

import (
	"fmt"
	"time"
)

var serverRules = []rule[Facts]{
	{Code{"runtime-unreachable", Warning, "The container runtime cannot be reached: images and writable layers are not measured, and nothing is collected.",
		"check that it runs, and set its socket with --container-runtime-endpoint; without a runtime use --container-runtime-endpoint=none"},
		func(f *Facts) []trouble { return when(!f.Runtime.Value.Old, f.Runtime.Value.Fault) }},
	{Code{"runtime-api-old", Warning, "The container runtime does not support version v1 of the CRI.",
		"update it: containerd supports it from 1.6 on, CRI-O from 1.20 on"},
		func(f *Facts) []trouble { return when(f.Runtime.Value.Old, f.Runtime.Value.Fault) }},
	{Code{"right-missing", Error, "The agent lacks a right that its configuration needs.",
		"apply deploy/rbac, or the chart, of this version; for an optional right, the file in deploy/rbac named after the option"},
		func(f *Facts) []trouble { return missingRights(f, false) }},
	{Code{"record-right-missing", Warning, "The agent may not write its record of evictions, so that kubectl plimsoll why and plimsoll why do not find them.",
		"apply deploy/rbac/agent.yaml, or the chart, of this version; or record nothing with --eviction-record-namespace="},
		func(f *Facts) []trouble { return missingRights(f, true) }},
	{Code{"clock-skew", Warning, "The node's clock differs from the API server's by more than 2 s: timestamps of conditions and leases are misleading.",
		"run a time service (chrony, systemd-timesyncd) on the node"},
		func(f *Facts) []trouble { return one(skewed(f.Server, skewNoticed, skewHarmful)) }},
	{Code{"clock-skew-large", Error, "The node's clock differs from the API server's by more than 30 s: a lease of 40 s can appear expired although it is renewed.",
		"run a time service (chrony, systemd-timesyncd) on the node"},
		func(f *Facts) []trouble { return one(skewed(f.Server, skewHarmful, 1<<62)) }},
	{kubeletVersion,
		func(f *Facts) []trouble {
			if f.Server == nil {
				return nil
			}
			return one(untested(f.Server.KubeletVersion.Value))
		}},
}

// kubeletVersion occurs on the node and from outside.
var kubeletVersion = Code{"kubelet-version", Warning, "Plimsoll is not tested beside this version of the kubelet.",
	fmt.Sprintf("run a kubelet of %d.%d to %[1]d.%[3]d, or monitor the node closely", kubeletMajor, firstKubeletMinor, lastKubeletMinor)}

// missingRights returns the rights that the agent lacks: those for its record of evictions, or all others.
func missingRights(f *Facts, record bool) (found []trouble) {
	if f.Server == nil {
		return nil
	}
	for _, r := range f.Server.Denied.Value {
		if r.Record == record {
			found = append(found, trouble{what: fmt.Sprintf("the right to %s is missing: %s", r, r.Loss)})
		}
	}
	return found
}

// skewed reports clocks that differ by more than above and by no more than atMost.
func skewed(s *Server, above, atMost time.Duration) string {
	if s == nil {
		return ""
	}
	ahead := s.Ahead.Value
	by, way := ahead.Abs(), "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	if by <= above || by > atMost {
		return ""
	}
	return fmt.Sprintf("the node's clock is %s %s the API server's", by.Round(100*time.Millisecond), way)
}

// untested reports a kubelet's version outside of the tested range. An empty version is not
// reported.
func untested(version string) string {
	if version == "" {
		return ""
	}
	major, minor, ok := twoNumbers(trimV(version))
	if ok && major == kubeletMajor && minor >= firstKubeletMinor && minor <= lastKubeletMinor {
		return ""
	}
	return fmt.Sprintf("the kubelet is %s, outside of %d.%d to %d.%d", version, kubeletMajor, firstKubeletMinor, kubeletMajor, lastKubeletMinor)
}

func trimV(version string) string {
	if len(version) > 0 && version[0] == 'v' {
		return version[1:]
	}
	return version
}

// unknownOf returns why a fact of the API server is unknown; empty without an API server.
func unknownOf[T any](of func(*Server) Fact[T]) func(*Facts) string {
	return func(f *Facts) string {
		if f.Server == nil {
			return ""
		}
		return of(f.Server).missing()
	}
}

var unknownRules = []rule[Facts]{
	unknown("unknown-kernel", Warning, "the kernel's version", asRoot, func(f *Facts) string { return f.KernelRelease.missing() }),
	unknown("unknown-cgroups", Warning, "the cgroup file systems", asRoot, func(f *Facts) string { return f.Cgroups.missing() }),
	unknown("unknown-psi", Warning, "pressure stall information", asRoot, func(f *Facts) string { return f.StallFault.missing() }),
	unknown("unknown-swap", Warning, "swap", asRoot, func(f *Facts) string { return f.Swap.missing() }),
	unknown("unknown-processes", Warning, "other processes of the node", asRoot, func(f *Facts) string { return f.Processes.missing() }),
	unknown("unknown-capacity", Warning, "the capacity of memory and disks", asRoot, func(f *Facts) string { return f.Capacity.missing() }),
	unknown("unknown-state", Warning, "the place of the agent's state", asRoot, func(f *Facts) string { return f.StateFault.missing() }),
	unknown("unknown-disarm-file", Warning, "the disarm file", "make it readable: until then the agent stays disarmed",
		func(f *Facts) string { return f.Disarmed.missing() }),
	unknown("unknown-kubelet", Warning, "the kubelet's configuration", "set --kubelet-config, and make the file and its drop-in directory readable",
		func(f *Facts) string { return f.Kubelet.missing() }),
	unknown("unknown-runtime", Warning, "the container runtime", "set its socket with --container-runtime-endpoint",
		func(f *Facts) string { return f.Runtime.missing() }),
	unknown("unknown-clock", Warning, "the API server's clock", atServer, unknownOf(func(s *Server) Fact[time.Duration] { return s.Ahead })),
	unknown("unknown-rights", Warning, "the agent's rights", atServer, unknownOf(func(s *Server) Fact[[]Right] { return s.Denied })),
	unknown("unknown-kubelet-version", Warning, "the kubelet's version", atServer, unknownOf(func(s *Server) Fact[string] { return s.KubeletVersion })),
	unknown("unknown-pods", Info, "the images of the node's pods", atServer, unknownOf(func(s *Server) Fact[[]string] { return s.Images })),
}

const (
	asRoot   = "run the command as root on the node; in a container, mount the host's /proc and /sys/fs/cgroup, and set --proc-root and --cgroup-root"
	atServer = "check that the API server answers, and set --kubeconfig and --hostname-override"
)
