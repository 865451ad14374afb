package whole

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

const (
	// namespace is that of Plimsoll. releaseName is the name of its chart's release.
	namespace   = "plimsoll-system"
	releaseName = "plimsoll"
	// tag is the image's tag.
	tag       = "whole"
	reference = "registry.plimsoll.dev/plimsoll:" + tag
)

// release is the installed chart.
type release struct {
	helm, kubeconfig, dir string
	packaged              string // RELEASE: a directory that make release has written; empty: everything is built here
	chart, image          string // directory or package of the chart, and reference of the image
	plimsoll              string // the program, for administrators
	client                string // kubectl-plimsoll, of [env.buildClient]
	values                map[string]any
	output                string // helm's last output
}

// buildImage builds program and image and imports the image on the node. They are those of a packaged release if there is
// one, and so is the chart.
func (s *env) buildImage() {
	s.Helper()
	dir := s.TempDir()
	r := &release{dir: dir, plimsoll: filepath.Join(dir, "plimsoll"), chart: "../../../deploy/helm/plimsoll", image: reference, packaged: os.Getenv("RELEASE")}
	archive := filepath.Join(dir, "plimsoll.tar")
	built, err := cluster.Prebuilt(dir, "plimsoll", "plimsoll.tar")
	s.must(err)
	switch {
	case r.packaged != "":
		archive = s.unpack(r)
	case !built:
		s.build("go", "build", "-trimpath", "-ldflags=-s -w -X main.version="+tag, "-o", r.plimsoll, "../../../cmd/plimsoll")
		s.build("go", "-C", "../../../deploy/image", "run", ".", "-version", tag, "-out", dir, "amd64="+r.plimsoll)
	}
	s.must(s.Node.Load(s.Context(), archive, r.image))
	r.helm, err = cluster.Binary("helm")
	s.must(err)
	r.kubeconfig, err = s.Kubeconfig(s.Admin())
	s.must(err)
	s.release = r
}

// unpack takes chart, program and image of a packaged release. Returns the archive of the image.
func (s *env) unpack(r *release) (archive string) {
	s.Helper()
	list, err := os.ReadFile(filepath.Join(r.packaged, "images.txt")) // ARCHIVE REFERENCE@DIGEST
	s.must(err)
	first, _, _ := strings.Cut(string(list), "\n")
	name, image, _ := strings.Cut(first, " ")
	r.image, _, _ = strings.Cut(image, "@")
	r.chart = filepath.Join(r.packaged, "plimsoll-"+r.image[strings.LastIndex(r.image, ":")+1:]+".tgz")
	s.unpackProgram(r.packaged, "plimsoll", r.dir)
	return filepath.Join(r.packaged, name)
}

// unpackProgram unpacks a program of a packaged release into a directory.
func (s *env) unpackProgram(release, name, into string) {
	s.Helper()
	archives, err := filepath.Glob(filepath.Join(release, name+"-*-linux-"+runtime.GOARCH+".tar.gz"))
	if err != nil || len(archives) != 1 {
		s.Fatalf("archives of %s in %s: %v, %v, want one", name, release, archives, err)
	}
	s.build("tar", "-xzf", archives[0], "-C", into, name)
}

func (s *env) build(name string, args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "SOURCE_DATE_EPOCH=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// values returns this node's deviations from the chart's defaults: its paths, the host's
// network, and settings for its single node with a machine. Transition periods and graces are a
// fraction of the defaults.
func (s *env) values() map[string]any {
	s.Helper()
	server, err := url.Parse(s.Admin().Host)
	s.must(err)
	here := map[string]any{corev1.LabelHostname: cluster.NodeName}
	image := map[string]any{"pullPolicy": "Never"}
	if s.release.packaged == "" { // else the chart has the name of its image
		image["tag"] = tag
	}
	own := map[string]any{
		"image":       image,
		"hostNetwork": true,
		"extraEnv": []any{
			map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": server.Hostname()},
			map[string]any{"name": "KUBERNETES_SERVICE_PORT", "value": server.Port()},
		},
		"agent": map[string]any{
			"nodeSelector": here,
			"config": map[string]any{
				"enforceNodeAllocatable":           []any{"none"},
				"evictionHard":                     lines,
				"evictionPressureTransitionPeriod": "5s",
				"monitoringPeriod":                 seconds(1),
				"volumeStatsAggPeriod":             seconds(1),
				"imageMinimumGCAge":                "0s",
				"imageGCHighThresholdPercent":      100,
				"garbageCollection":                "on",
				"localStorageLimits":               "on",
				"evictionsPerHour":                 0,
			},
		},
		"controller": map[string]any{
			"replicas":     1,
			"nodeSelector": here,
			"tolerations":  []any{map[string]any{"operator": "Exists"}},
			"config": map[string]any{
				"mode":                   "replace",
				"conflictWindow":         "0s",
				"nodeMonitorGracePeriod": beat(5),
				"nodeRenewInterval":      beat(1),
				"agentGrace":             beat(7),
				"healthzBindAddress":     "", // two of them would require the same port of the host
			},
		},
	}
	return merged(own, s.places())
}

// places returns the values for the node's paths: the preset of its layout, or its paths.
func (s *env) places() map[string]any {
	s.Helper()
	if preset := s.Node.Preset(); preset != "" {
		text, err := os.ReadFile(filepath.Join("../../../deploy/helm/plimsoll/presets", preset+".yaml"))
		s.must(err)
		var values map[string]any
		s.must(yaml.Unmarshal(text, &values))
		return values
	}
	return map[string]any{"agent": map[string]any{
		"host": map[string]any{
			"kubelet": s.Node.KubeletRoot, "podLogs": s.Node.PodLogs,
			"runtimeSocket": filepath.Dir(s.Node.Socket), "runtimeRoot": s.Node.ContainerdRoot,
		},
		"config": map[string]any{
			"nodeCgroup":               s.Node.Cgroup,
			"containerRuntimeEndpoint": "unix://" + s.Node.Socket,
			"kubeletConfig":            s.Node.KubeletConfig,
		},
	}}
}

// lines are the agent's only thresholds.
var lines = map[string]any{
	"memory.available":            nil, // the chart's
	"allocatableMemory.available": "150Mi", "nodefs.available": "150Mi", "nodefs.inodesFree": "20%", "pid.available": "600",
}

// install installs the chart with the values of this node and others on top.
func (s *env) install(others ...map[string]any) {
	s.Helper()
	s.release.values = merged(append([]map[string]any{s.values()}, others...)...)
	s.runHelm("install", "--create-namespace")
	s.until("the node has no taint", func() bool { return s.node() != nil && len(s.node().Spec.Taints) == 0 })
}

// upgrade changes values for the rest of the run.
func (s *env) upgrade(others ...map[string]any) {
	s.Helper()
	s.release.values = merged(append([]map[string]any{s.release.values}, others...)...)
	s.runHelm("upgrade")
}

// reconfigure changes fields of the configuration that the agent applies while it runs, and waits until it
// has: the kubelet writes the file when it looks at the pod again.
func (s *env) reconfigure(others ...map[string]any) {
	s.Helper()
	agent := s.agent()
	before := s.applied(agent)
	s.upgrade(others...)
	s.until("the agent applies the configuration", func() bool { return s.applied(agent) > before })
	if now := s.agent(); now.Object.UID != agent.Object.UID {
		s.Errorf("the configuration replaced the agent's pod %s by %s", agent.Object.Name, now.Object.Name)
	}
}

// applied returns how many changes of its configuration an agent has applied.
func (s *env) applied(agent *cluster.Pod) (n int) {
	s.Helper()
	for _, text := range s.output(agent) {
		n += strings.Count(text, "Applied a changed configuration")
	}
	return n
}

// runHelm runs helm and waits until the pods are those of the new values.
func (s *env) runHelm(verb string, args ...string) {
	s.Helper()
	text, err := yaml.Marshal(s.release.values)
	s.must(err)
	s.must(os.WriteFile(s.release.valuesFile(), text, 0o600))
	s.helm(append(s.release.args(verb), args...)...)
}

// valuesFile is the file with the values of the last installation or upgrade.
func (r *release) valuesFile() string { return filepath.Join(r.dir, "values.yaml") }

// args returns helm's arguments for a verb that takes the chart and the file with values.
func (r *release) args(verb string) []string {
	return []string{verb, releaseName, r.chart, "--values=" + r.valuesFile()}
}

func (s *env) helm(args ...string) {
	s.Helper()
	s.must(s.tryHelm(args...))
}

// tryHelm is helm for other goroutines: it waits until the objects are ready or deleted, and returns the error.
func (s *env) tryHelm(args ...string) error {
	ctx, cancel := context.WithTimeout(s.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.release.helm, append(args, "--wait", "--timeout="+patience.String(), "--namespace="+namespace, "--kubeconfig="+s.release.kubeconfig)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+s.release.dir, "HELM_CONFIG_HOME="+s.release.dir, "HELM_DATA_HOME="+s.release.dir)
	out, err := cmd.CombinedOutput()
	if s.release.output = string(out); err != nil {
		return fmt.Errorf("helm %v: %w\n%s", args, err, out)
	}
	return nil
}

// plimsoll runs the program with the rights of a cluster administrator.
func (s *env) plimsoll(args ...string) (string, error) {
	return s.execute(s.release.plimsoll, append(args, "--kubeconfig="+s.release.kubeconfig)...)
}

// execute runs a program. Returns its output and its error.
func (s *env) execute(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}

// merged merges maps; later ones take precedence.
func merged(layers ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, layer := range layers {
		for key, value := range layer {
			below, both := all[key].(map[string]any)
			above, is := value.(map[string]any)
			if is && both {
				value = merged(below, above)
			} else if is {
				value = maps.Clone(above)
			}
			all[key] = value
		}
	}
	return all
}

// agentConfig returns values with changes to the agent's configuration.
func agentConfig(fields map[string]any) map[string]any {
	return map[string]any{"agent": map[string]any{"config": fields}}
}

// own lists the running pods of one of Plimsoll's components, without those in deletion.
func (s *env) own(component string) []corev1.Pod {
	s.Helper()
	list, err := s.api.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	s.must(err)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil
	})
}

// agent returns the agent's pod.
func (s *env) agent() *cluster.Pod {
	s.Helper()
	var pods []corev1.Pod
	s.poll("one agent runs", func() bool { pods = s.own("agent"); return len(pods) == 1 })
	return s.Node.Pod(&pods[0])
}

// decisions returns the lines of an agent's decision log, of all its containers.
func (s *env) decisions(of *cluster.Pod) (all []agent.Decision) {
	s.Helper()
	for _, text := range s.output(of) {
		for line := range strings.Lines(text) {
			_, output, found := strings.Cut(line, " F ") // CRI format: time, stream, whole or partial
			var d agent.Decision
			if found && strings.HasPrefix(output, "{") && json.Unmarshal([]byte(output), &d) == nil && d.Decision != "" {
				all = append(all, d)
			}
		}
	}
	return all
}

// output returns what each container of an agent's pod has written, the oldest first.
func (s *env) output(of *cluster.Pod) (texts []string) {
	s.Helper()
	logs, err := filepath.Glob(filepath.Join(of.Logs, "agent", "*.log"))
	s.must(err)
	slices.Sort(logs)
	for _, log := range logs {
		text, err := os.ReadFile(log)
		s.must(err)
		texts = append(texts, string(text))
	}
	return texts
}

// logs returns the last log lines of Plimsoll's pods, for readers of a failure.
func (s *env) logs() string {
	var all strings.Builder
	for _, component := range []string{"agent", "controller", "cleanup"} {
		fmt.Fprintf(&all, "--- %s:\n%s\n", component, s.show("logs", "--namespace="+namespace, "--selector=app.kubernetes.io/component="+component, "--tail=40", "--prefix=false"))
	}
	return all.String()
}
