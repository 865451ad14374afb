package doctor

import "fmt"

// noPodSource returns why no pod can become known to the agent.
func noPodSource(f *Facts) string {
	switch {
	case f.Ours.PodManifests != "" && f.Pods.Value.ManifestsFault != "":
		return "the directory of --pod-manifests cannot be read: " + f.Pods.Value.ManifestsFault
	case f.Server == nil && f.Ours.PodManifests == "":
		return "there is neither an API server nor a directory of manifests"
	}
	return ""
}

// noPodCgroup returns why cgroups of pods that must exist are missing. A kubelet creates their
// parent when it starts. Without a kubelet it may be absent until the first pod.
func noPodCgroup(f *Facts) string {
	pods, kubelet := f.Pods.Value, f.hasKubelet()
	switch {
	case !f.Pods.Known:
		return ""
	case pods.Root == "" && pods.Elsewhere != "" && kubelet:
		return fmt.Sprintf("none of %s exists, and a process of a pod runs in %s", listed(pods.Places), pods.Elsewhere)
	case pods.Root == "" && kubelet:
		return fmt.Sprintf("none of %s exists, though the node has a kubelet", listed(pods.Places))
	case pods.Root == "" && pods.Manifests > 0:
		return fmt.Sprintf("none of %s exists, though %s has %d manifests", listed(pods.Places), f.Ours.PodManifests, pods.Manifests)
	case pods.Root != "" && !pods.Populated && pods.Elsewhere != "" && kubelet:
		return fmt.Sprintf("%s has no process, and a process of a pod runs in %s", pods.Root, pods.Elsewhere)
	}
	return ""
}

// hasKubelet reports whether the node has a kubelet, by its configuration, the Node, or its
// process.
func (f *Facts) hasKubelet() bool {
	if f.Kubelet.Value.Present || f.Server != nil && f.Server.KubeletVersion.Value != "" {
		return true
	}
	return len(running(f, func(name string) bool { return name == "kubelet" })) > 0
}
