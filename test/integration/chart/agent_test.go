package chart_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

// variants are values with large effects; the invariants of the chart are checked for each.
var variants = map[string][]string{
	"its own values":       nil,
	"the oldest server":    {"--kube-version=" + kubernetesVersions[0]},
	"agents alone":         {`controller.enabled=false`},
	"the controller alone": {`agent.enabled=false`},
	"the host's network":   {`hostNetwork=true`, `extraEnv=[{"name":"KUBERNETES_SERVICE_HOST","value":"127.0.0.1"}]`},
	"other PIDs":           {`agent.hostPID=false`},
	"another name":         {`fullnameOverride="mark"`},
	"soft thresholds":      {`agent.config={"evictionSoft":{"memory.available":"1Gi"},"evictionSoftGracePeriod":{"memory.available":"1m30s"}}`},
	"a newer server":       {"--kube-version=" + kubernetesVersions[len(kubernetesVersions)-1]},
	"the last server":      {"--kube-version=1.37.2"},
	"every policy":         {`policies.kubeletKeepsConditions=true`, mutating},
	"armed":                {`agent.arming.all="armed"`},
	"every right":          {`agent.config={"softEviction":"direct","pressureTaint":true,"reportNodeLease":true,"pressureConditions":"own"}`},
	"replacing": {`controller.config={"mode":"replace","maxUnhealthy":"20%","kubeAPIQPS":20}`, `controller.replicas=3`,
		`controller.podDisruptionBudget={"maxUnavailable":null,"minAvailable":2}`},
	"CRI-O": {`agent.host={"runtimeSocket":"/run/crio","runtimeRoot":"/var/lib/containers"}`,
		`agent.config={"containerRuntimeEndpoint":"unix:///run/crio/crio.sock"}`, `agent.seLinuxOptions={"type":"spc_t"}`},
	"empty values": {`agent.capabilities=[]`, `agent.nodeSelector=null`, `agent.tolerations=[]`, `controller.affinity=null`, `controller.tolerations=[]`, `agent.config={"healthzBindAddress":"","healthSocket":"","recordingDir":"","decisionLogDir":""}`, `controller.config={"healthzBindAddress":"","healthSocket":""}`},
	"many values": {`commonLabels={"team":"nodes"}`, `podAnnotations={"a":"b"}`, `imagePullSecrets=[{"name":"registry"}]`, `agent.affinity={"nodeAffinity":{}}`,
		`image.digest="sha256:` + strings.Repeat("0", 64) + `"`, `networkPolicy={"enabled":true,"from":[{"namespaceSelector":{}}]}`,
		`agent.extraVolumes=[{"name":"pods","hostPath":{"path":"/etc/pods"}}]`, `agent.extraVolumeMounts=[{"name":"pods","mountPath":"/etc/pods","readOnly":true}]`},
	"Prometheus": {`metrics.serviceMonitor.enabled=true`, `metrics.podMonitor.enabled=true`,
		`metrics.authorization={"credentials":{"name":"prometheus","key":"token"}}`, `metrics.readers=[{"kind":"ServiceAccount","name":"prometheus-k8s","namespace":"monitoring"}]`, `metrics.rules={"enabled":true,"labels":{"release":"prometheus"}}`,
		"--api-versions=monitoring.coreos.com/v1/ServiceMonitor", "--api-versions=monitoring.coreos.com/v1/PodMonitor", "--api-versions=monitoring.coreos.com/v1/PrometheusRule"},
	"other accounts": {`agent.serviceAccount={"create":false,"name":"nodes"}`, `controller.serviceAccount={"name":"lifecycle","annotations":{"a":"b"}}`, `policies.kubeletKeepsConditions=true`, mutating},
	"no rights":      {`rbac.create=false`, `cleanup.onUninstall=false`},
	"two images":     {`agent.image.tag="2"`, `controller.image.pullPolicy="Always"`, `agent.extraArgs=["-v=2"]`, `controller.extraArgs=["-v=2"]`},
	"labels everywhere": {`commonLabels={"team":"nodes"}`, `commonAnnotations={"a":"b"}`, `podLabels={"a":"b"}`, `agent.labels={"c":"d"}`, `agent.annotations={"c":"d"}`,
		`agent.podLabels={"a":"c"}`, `controller.podAnnotations={"a":"c"}`, `podSecurityContext={"runAsUser":1000660000,"fsGroup":1000660000,"supplementalGroups":[7]}`},
	"dashboards":          {`dashboards={"enabled":true,"annotations":{"grafana_folder":"Nodes"}}`, `commonLabels={"team":"nodes"}`},
	"preset kind":         {preset("kind")},
	"preset k3s":          {preset("k3s")},
	"preset rke2":         {preset("rke2")},
	"preset eks-al2023":   {preset("eks-al2023")},
	"preset bottlerocket": {preset("bottlerocket")},
	"preset gke-cos":      {preset("gke-cos")},
	"preset openshift":    {preset("openshift")},
	"preset talos":        {preset("talos")},
}

// TestVariants_AreValid checks that the chart's output is valid, that the program starts with the
// configuration in it, and that names and namespace follow the release.
func TestVariants_AreValid(t *testing.T) {
	helm := needTool(t, "helm")
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			manifest, err := helm.template(t, values...)
			if err != nil {
				t.Fatal(err)
			}
			all := objects(t, manifest)
			for name, o := range all {
				checkPods(t, name, o)
			}
			checkConfigurations(t, all)
			if slices.Contains(values, `fullnameOverride="mark"`) {
				checkNames(t, all)
			}
		})
	}
}

// checkConfigurations makes the program read the configurations with which it would start.
func checkConfigurations(t *testing.T, all map[string]runtime.Object) {
	t.Helper()
	for name, o := range all {
		files, ok := o.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		if text := files.Data["agent.yaml"]; text != "" {
			if _, err := agentconfig.ParseFile([]byte(text)); err != nil {
				t.Errorf("%s: the agent refuses its configuration: %v\n%s", name, err, text)
			}
		}
		if text := files.Data["controller.yaml"]; text != "" {
			if _, err := controllerconfig.ParseFile([]byte(text)); err != nil {
				t.Errorf("%s: the controller refuses its configuration: %v\n%s", name, err, text)
			}
		}
	}
}

// checkNames reports objects not named after the release. Names that agents look up are fixed.
func checkNames(t *testing.T, all map[string]runtime.Object) {
	t.Helper()
	for name := range all {
		if called := name[strings.LastIndex(name, "/")+1:]; !strings.HasPrefix(called, "mark") && called != "plimsoll-arming" {
			t.Errorf("%s is not called after the release", name)
		}
	}
}

// checkPods checks the pods of an object for the common rules of all pods of the chart.
func checkPods(t *testing.T, name string, o runtime.Object) {
	t.Helper()
	var spec corev1.PodSpec
	switch o := o.(type) {
	case *appsv1.DaemonSet:
		spec = o.Spec.Template.Spec
	case *appsv1.Deployment:
		spec = o.Spec.Template.Spec
	case *batchv1.Job:
		spec = o.Spec.Template.Spec
	default:
		return
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("%s: the token valid for one year is mounted", name)
	}
	for _, c := range spec.Containers {
		rights := c.SecurityContext
		if !*rights.ReadOnlyRootFilesystem || *rights.AllowPrivilegeEscalation || rights.Privileged != nil || !slices.Contains(rights.Capabilities.Drop, "ALL") {
			t.Errorf("%s: rights of %s: %+v", name, c.Name, rights)
		}
		if c.Resources.Limits.Cpu().Sign() != 0 || c.Resources.Requests.Memory().Sign() == 0 {
			t.Errorf("%s: resources of %s: %+v", name, c.Name, c.Resources)
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s: %s mounts %s, which is no volume", name, c.Name, m.Name)
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.Projected == nil {
			continue
		}
		if expires := v.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds; *expires != 3600 {
			t.Errorf("%s: its token is valid for %d s", name, *expires)
		}
	}
}

// TestAgentPod_ReadsKernelLogOnRequest checks that the container is privileged only where it is to read
// the kernel's log.
func TestAgentPod_ReadsKernelLogOnRequest(t *testing.T) {
	helm := needTool(t, "helm")
	for _, wanted := range []bool{false, true} {
		spec := find[*appsv1.DaemonSet](t, helm.made(t, fmt.Sprintf("agent.kernelLog=%t", wanted)), "DaemonSet/plimsoll-agent").Spec.Template.Spec
		container := spec.Containers[0]
		rights := container.SecurityContext
		if privileged := rights.Privileged != nil && *rights.Privileged; privileged != wanted || (rights.AllowPrivilegeEscalation == nil) != wanted {
			t.Errorf("kernelLog %t: %+v", wanted, rights)
		}
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/dev/kmsg" && m.ReadOnly })
		device := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && v.HostPath.Path == "/dev/kmsg" && *v.HostPath.Type == corev1.HostPathCharDev
		})
		if mounted != wanted || device != wanted {
			t.Errorf("kernelLog %t: mounted %t, device %t", wanted, mounted, device)
		}
	}
}

// TestAgentPod_HasExpectedSpec checks the agent's pod to the last mount.
func TestAgentPod_HasExpectedSpec(t *testing.T) {
	all := needTool(t, "helm").made(t)
	spec := find[*appsv1.DaemonSet](t, all, "DaemonSet/plimsoll-agent").Spec.Template.Spec
	container := spec.Containers[0]
	if diff := cmp.Diff([]corev1.Capability{"KILL", "DAC_READ_SEARCH", "IPC_LOCK", "SYS_NICE"}, container.SecurityContext.Capabilities.Add); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	for _, m := range container.VolumeMounts {
		host := strings.HasPrefix(m.MountPath, "/host/") && m.ReadOnly
		if propagates := m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationHostToContainer; propagates != host {
			t.Errorf("%s: propagation of later mounts: got %v, want %v", m.MountPath, propagates, host)
		}
	}
	if diff := cmp.Diff([]string{"/host/sys/fs/cgroup", "/run/plimsoll", "/var/lib/plimsoll/recording", "/var/lib/plimsoll/decisions"}, written(container)); diff != "" {
		t.Errorf("writes to (-want +got):\n%s", diff)
	}
	if spec.PriorityClassName != "system-node-critical" || !spec.HostPID || spec.HostNetwork || spec.HostIPC {
		t.Errorf("priority %s, host's PIDs %v, network %v, IPC %v", spec.PriorityClassName, spec.HostPID, spec.HostNetwork, spec.HostIPC)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	var given []string
	for _, e := range container.Env {
		given = append(given, e.Name)
	}
	slices.Sort(given)
	if diff := cmp.Diff([]string{"NODE_NAME", "PLIMSOLL_DAEMONSET", "POD_NAME", "POD_NAMESPACE", "POD_UID"}, given); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// written returns the mounts that a container may write to.
func written(c corev1.Container) (paths []string) {
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			paths = append(paths, m.MountPath)
		}
	}
	return paths
}

// TestLogs_WritableOnlyForGarbageCollection checks that only a garbage collector may write to logs. Logs of
// removed pods are deleted by the garbage collector: the kubelet, unless the agent is
// configured to be it.
func TestLogs_WritableOnlyForGarbageCollection(t *testing.T) {
	helm := needTool(t, "helm")
	for reclaim, want := range map[string]bool{"on": true, "auto": false, "off": false} {
		set := find[*appsv1.DaemonSet](t, helm.made(t, `agent.config={"garbageCollection":"`+reclaim+`"}`), "DaemonSet/plimsoll-agent")
		if got := slices.Contains(written(set.Spec.Template.Spec.Containers[0]), "/host/var/log/pods"); got != want {
			t.Errorf("reclaim %s: writes to logs %v, want %v", reclaim, got, want)
		}
	}
}

// TestConfig_ReplacesPodsOnlyIfNeeded checks that a change of a field which a running program applies leaves
// the pods alone, and that any other change replaces them.
func TestConfig_ReplacesPodsOnlyIfNeeded(t *testing.T) {
	helm := needTool(t, "helm")
	digests := func(values ...string) [2]string {
		all := helm.made(t, values...)
		return [2]string{find[*appsv1.DaemonSet](t, all, "DaemonSet/plimsoll-agent").Spec.Template.Annotations["plimsoll.dev/config"],
			find[*appsv1.Deployment](t, all, "Deployment/plimsoll-controller").Spec.Template.Annotations["plimsoll.dev/config"]}
	}
	before := digests()
	for _, tc := range []struct {
		values   string
		replaced [2]bool // agents, controller
	}{
		{`agent.config={"evictionHard":{"memory.available":"1Gi"},"evictionsPerHour":7,"verbosity":2}`, [2]bool{}},
		{`agent.config.monitoringPeriod="20s"`, [2]bool{true, false}},
		{`agent.config.protectedNamespaces=["a"]`, [2]bool{true, false}},
		{`controller.config={"maxUnhealthy":"20%","nodeMonitorGracePeriod":"60s"}`, [2]bool{}},
		{`controller.config.conflictWindow="1m"`, [2]bool{false, true}},
	} {
		after := digests(tc.values)
		if got := [2]bool{after[0] != before[0], after[1] != before[1]}; got != tc.replaced || len(after[0]) != 64 {
			t.Errorf("%s: replaces agents and controller %v, want %v", tc.values, got, tc.replaced)
		}
	}
	templates := text(t, filepath.Join(chart, "templates", "_config.tpl"))
	for name, live := range map[string][]string{"plimsoll.agent.live": agentconfig.Live(), "plimsoll.controller.live": controllerconfig.Live()} {
		if want := "{{- define \"" + name + "\" -}}\n" + strings.Join(live, " ") + "\n{{- end }}"; !strings.Contains(templates, want) {
			t.Errorf("templates/_config.tpl has another list %s than the program: it must be %q", name, want)
		}
	}
}

// TestDefaults_AreDisarmed checks that an installation without settings kills no pod.
func TestDefaults_AreDisarmed(t *testing.T) {
	all := needTool(t, "helm").made(t)
	c, err := agentconfig.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-agent").Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if !c.DryRun {
		t.Error("the agents are not in a dry run")
	}
	if data := find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-arming").Data; len(data) != 0 {
		t.Errorf("plimsoll-arming has %v, want no data", data)
	}
}

// TestProbes_UseOnlyTheSocket checks that no probe uses the network, where any pod could
// starve it. The socket is the configured one, in a directory that the container can write to.
func TestProbes_UseOnlyTheSocket(t *testing.T) {
	helm := needTool(t, "helm")
	for _, values := range [][]string{nil, {`hostNetwork=true`}, {`agent.config={"healthzBindAddress":""}`, `controller.config={"healthzBindAddress":""}`}} {
		all := helm.made(t, values...)
		agent := find[*appsv1.DaemonSet](t, all, "DaemonSet/plimsoll-agent").Spec.Template.Spec.Containers[0]
		controller := find[*appsv1.Deployment](t, all, "Deployment/plimsoll-controller").Spec.Template.Spec.Containers[0]
		c, err := agentconfig.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-agent").Data["agent.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		l, err := controllerconfig.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-controller").Data["controller.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		checkProbes(t, agent, c.HealthSocket)
		checkProbes(t, controller, l.HealthSocket)
	}
}

func checkProbes(t *testing.T, c corev1.Container, socket string) {
	t.Helper()
	for _, p := range []struct {
		check    string
		probe    *corev1.Probe
		patience int32 // seconds in which no probe succeeds: a busy node may start no process meanwhile
	}{{"livez", c.StartupProbe, 300}, {"livez", c.LivenessProbe, 300}, {"readyz", c.ReadinessProbe, 120}} {
		want := []string{"/plimsoll", "health", p.check, "--socket=" + socket, "--timeout=20s"}
		if p.probe == nil || p.probe.Exec == nil || !slices.Equal(p.probe.Exec.Command, want) || p.probe.HTTPGet != nil || p.probe.TCPSocket != nil ||
			p.probe.PeriodSeconds*p.probe.FailureThreshold != p.patience || p.probe.TimeoutSeconds != 30 {
			t.Errorf("%s, %s: %+v, want %q", c.Name, p.check, p.probe, want)
		}
	}
	if !slices.Contains(written(c), filepath.Dir(socket)) {
		t.Errorf("%s can not create %s: it can write to %q", c.Name, socket, written(c))
	}
}

// TestNetworkPolicy_AdmitsOnlyReaders checks the default: both programs are covered by a
// policy, and only the namespace of Prometheus may connect, to the metrics port.
func TestNetworkPolicy_AdmitsOnlyReaders(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		values []string
		peers  int
	}{{nil, 1}, {[]string{`networkPolicy.from=[]`}, 0}} {
		all := helm.made(t, c.values...)
		for _, name := range []string{"plimsoll-agent", "plimsoll-controller"} {
			spec := find[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy/"+name).Spec
			if len(spec.Ingress) != c.peers || !slices.Equal(spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
				t.Errorf("%s with %v: %+v", name, c.values, spec)
				continue
			}
			if c.peers > 0 && (len(spec.Ingress[0].From) != 1 || spec.Ingress[0].From[0].NamespaceSelector == nil || len(spec.Ingress[0].Ports) != 1) {
				t.Errorf("%s lets in more than one namespace: %+v", name, spec.Ingress)
			}
		}
	}
}
