package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/agent/config"
)

// TestSchema_RefusesInvalidValues checks that a misspelt, mistyped or unusable value is reported before
// anything is installed.
func TestSchema_RefusesInvalidValues(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		value string
		words []string // of the error
	}{
		{`agnet.enabled=true`, []string{"agnet"}},
		{`agent.enable=true`, []string{"enable"}},
		{`agent.enabled="yes"`, []string{"/agent/enabled"}},
		{`agent.config.evictionHrad={}`, []string{"evictionHrad"}},
		{`agent.config="evictionHard: {}"`, []string{"/agent/config"}},
		{`agent.arming.all="arm"`, []string{"/agent/arming/all"}},
		{`agent.arming.All="armed"`, []string{"All"}},
		{`agent.capabilities=["CAP_KILL"]`, []string{"/agent/capabilities/0"}},
		{`agent.capabilities="KILL"`, []string{"/agent/capabilities"}},
		{`agent.seccompProfile.type="unconfined"`, []string{"/agent/seccompProfile/type"}},
		{`agent.host.kubelet="var/lib/kubelet"`, []string{"/agent/host/kubelet"}},
		{`agent.host.kubelet="/var/lib/kubelet/"`, []string{"/agent/host/kubelet"}},
		{`agent.host.kublet="/var/lib/kubelet"`, []string{"kublet"}},
		{`agent.tolerations=[{"operater":"Exists"}]`, []string{"operater"}},
		{`agent.updateStrategy.rollingUpdate.maxUnavailable="ten"`, []string{"maxUnavailable"}},
		{`agent.updateStrategy.rollingUpdate.maxSurge=1`, []string{"maxSurge"}}, // two agents would share /run/plimsoll
		{`agent.resources.request={}`, []string{"request"}},
		{`agent.securityContextConstraints="Privileged!"`, []string{"/agent/securityContextConstraints"}},
		{`controller.replicas="2"`, []string{"/controller/replicas"}},
		{`controller.config.modus="replace"`, []string{"modus"}},
		{`controller.podDisruptionBudget.minAvailable=1`, []string{"podDisruptionBudget"}},
		{`image.digest="sha256:1"`, []string{"/image/digest"}},
		{`image.pullPolicy="Sometimes"`, []string{"/image/pullPolicy"}},
		{`imagePullSecrets=["registry"]`, []string{"/imagePullSecrets/0"}},
		{`commonLabels.a=1`, []string{"/commonLabels/a"}},
		{`extraEnv={"A":"b"}`, []string{"/extraEnv"}},
		{`policies.evictedStaysEvictd=true`, []string{"evictedStaysEvictd"}},
		{`metrics.rules.runbooks="docs"`, []string{"/metrics/rules/runbooks"}},
		{`dashboards.enable=true`, []string{"enable"}},
		{`dashboards.labels={"grafana_dashboard":1}`, []string{"/dashboards/labels/grafana_dashboard"}},
		{`dashboards.namespace="Monitoring"`, []string{"/dashboards/namespace"}},
		{`controller.extraVolumes=[{"secret":{}}]`, []string{"/controller/extraVolumes/0"}},
		{`controller.extraVolumeMounts={}`, []string{"/controller/extraVolumeMounts"}},
		{`resourceQuota.enable=false`, []string{"enable"}},
		{`cleanup.onUninstal=false`, []string{"onUninstal"}},
		{`configCheck.enable=false`, []string{"enable"}},
		{`agent.config.evictionHard={"mem":"500Mib"}`, []string{"/agent/config/evictionHard", "mem"}},
		{`agent.config.evictionHard={"memory.available":"500Mib"}`, []string{"/agent/config/evictionHard/memory.available"}},
		{`agent.config.evictionHard={"memory.available":"lots"}`, []string{"/agent/config/evictionHard/memory.available"}},
		{`agent.config.evictionHard={"memory.available":-1}`, []string{"/agent/config/evictionHard/memory.available"}},
		{`agent.config.evictionHard="memory.available<1Gi"`, []string{"/agent/config/evictionHard"}},
		{`agent.config.evictionSoft={"memory.avail":"1Gi"}`, []string{"/agent/config/evictionSoft", "memory.avail"}},
		{`agent.config.evictionSoftGracePeriod={"memory.available":"90"}`, []string{"/agent/config/evictionSoftGracePeriod/memory.available"}},
		{`agent.config.evictionMinimumReclaim={"nodefs.available":"1 Gi"}`, []string{"/agent/config/evictionMinimumReclaim/nodefs.available"}},
		{`agent.config.kubeReserved={"mem":"1Gi"}`, []string{"/agent/config/kubeReserved", "mem"}},
		{`metrics.rules.enabled=true`, []string{"PrometheusRule", "Prometheus operator"}},
		{`metrics.podMonitor.enabled=true`, []string{"PodMonitor", "Prometheus operator"}},
		{`metrics.readers=["prometheus"]`, []string{"/metrics/readers/0"}},
		{`policies.kubeletKeepsConditions=true`, []string{"policies.kubeletKeepsConditions", "Kubernetes 1.36"}},
		{`agent.config.heartbeatNamespace="kube-system"`, []string{"agent.config.heartbeatNamespace", "leave it out"}},
		{`agent.config.evictionRecordNamespace="kube-system"`, []string{"agent.config.evictionRecordNamespace", "plimsoll-evictions", "leave it out"}},
		{`controller.config.evictionRecordNamespace="kube-system"`, []string{"controller.config.evictionRecordNamespace", "plimsoll-evictions", "leave it out"}},
		{`controller.config.leaderElectResourceNamespace="kube-system"`, []string{"leaderElectResourceNamespace", "leave it out"}},
		{`controller.config.leaderElect=false`, []string{"controller.replicas=1"}},
		{`agent.config={"evictionSoft":{"memory.available":"1Gi"},"softEviction":"status"}`, []string{"agent.config.softEviction", "direct", "mode=replace", "EKS"}},
		{`agent.config={"evictionSoft":{"memory.available":"1Gi"},"softEviction":"controller"}`, []string{"agent.config.softEviction", "direct"}},
	} {
		if _, err := helm.template(t, c.value); refused(err, c.words...) != nil {
			t.Errorf("%s: %v", c.value, refused(err, c.words...))
		}
	}
}

// TestMonitors_RefusedWithoutAccess covers settings with which Prometheus would be
// refused, or not reach the pods.
func TestMonitors_RefusedWithoutAccess(t *testing.T) {
	helm := needTool(t, "helm")
	_, err := helm.template(t, `metrics.podMonitor.enabled=true`, "--api-versions=monitoring.coreos.com/v1/PodMonitor")
	if err := refused(err, "metrics.authorization", "metrics.serviceMonitor"); err != nil {
		t.Error(err)
	}
	_, err = helm.template(t, `metrics.serviceMonitor.enabled=true`, `networkPolicy.from=[]`, "--api-versions=monitoring.coreos.com/v1/ServiceMonitor")
	if err := refused(err, "networkPolicy.from", "namespaceSelector"); err != nil {
		t.Error(err)
	}
}

// TestMonitors_RefusedOnLoopback checks that monitors of endpoints on loopback are refused, because
// nothing could read them.
func TestMonitors_RefusedOnLoopback(t *testing.T) {
	helm := needTool(t, "helm")
	for _, value := range []string{`hostNetwork=true`, `agent.config.healthzBindAddress="[::1]:10350"`} {
		_, err := helm.template(t, value, `metrics.podMonitor.enabled=true`, "--api-versions=monitoring.coreos.com/v1/PodMonitor")
		if err := refused(err, "healthzBindAddress", "0.0.0.0"); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestSchema_AcceptsValidValues checks that every accepted notation of a threshold also
// passes the schema.
func TestSchema_AcceptsValidValues(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct{ field, value string }{
		{"evictionHard", `{"memory.available":"500Mi","allocatableMemory.available":"1.5Gi","nodefs.available":"10%","nodefs.inodesFree":"5e3","pid.available":1000}`},
		{"evictionHard", `{"memory.available":"0%","nodefs.available":"100%","imagefs.available":".5%","imagefs.inodesFree":"12E6","containerfs.available":"1G"}`},
		{"evictionHard", `{}`},
		{"evictionMinimumReclaim", `{"memory.available":"0","nodefs.available":"250%"}`},
		{"kubeReserved", `{"cpu":"500m","memory":"1Gi","ephemeral-storage":"1Gi","pid":"1000"}`},
	} {
		files := find[*corev1.ConfigMap](t, helm.made(t, "agent.config."+c.field+"="+c.value), "ConfigMap/plimsoll-agent")
		if _, err := config.ParseFile([]byte(files.Data["agent.yaml"])); err != nil {
			t.Errorf("%s: %s: %v", c.field, c.value, err)
		}
	}
}

// samples matches the values in documents: blocks of YAML that begin with agent.
var samples = regexp.MustCompile("(?s)```yaml\n(agent:\n.*?)```")

// TestSoftEviction_WorksWithoutAReplacingController covers the documented sample with soft
// thresholds. If the controller only observes, agents request evictions themselves, and have
// the right to.
func TestSoftEviction_WorksWithoutAReplacingController(t *testing.T) {
	helm := needTool(t, "helm")
	found := samples.FindStringSubmatch(text(t, filepath.Join(docs, "how-to", "install.md")))
	if found == nil {
		t.Fatal("docs/how-to/install.md has no sample of values")
	}
	sample := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(sample, []byte(found[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values []string
		method string
	}{
		{nil, "direct"},
		{[]string{`controller.enabled=false`}, "direct"},
		{[]string{`controller.config={"mode":"replace","dryRun":true}`}, "direct"},
		{[]string{`controller.config.mode="replace"`}, "status"},
		{[]string{`controller.config.mode="replace"`, `agent.config.softEviction="direct"`}, "direct"},
	} {
		all := helm.made(t, append(c.values, "--values="+sample, "--api-versions=monitoring.coreos.com/v1/ServiceMonitor", "--api-versions=monitoring.coreos.com/v1/PrometheusRule")...)
		read, err := config.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-agent").Data["agent.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		if len(read.EvictionSoft.Settings) == 0 || read.SoftEviction != c.method {
			t.Errorf("%v: soft thresholds %v, evicted by %s, want %s", c.values, read.EvictionSoft, read.SoftEviction, c.method)
		}
		if granted := all["ClusterRole/plimsoll-agent-direct-eviction"] != nil; granted != (c.method == "direct") {
			t.Errorf("%v: right to request evictions: %v", c.values, granted)
		}
	}
	if without := helm.made(t); without["ClusterRole/plimsoll-agent-direct-eviction"] != nil {
		t.Error("agents may request evictions without soft thresholds")
	}
}

// TestRecords_OutliveNodesWithTheirController checks that records have no owner only where a controller deletes those
// of nodes that are gone, and that their namespace is made once.
func TestRecords_OutliveNodesWithTheirController(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		values []string
		owner  string
	}{
		{nil, "none"},
		{[]string{`controller.config.mode="replace"`}, "none"},
		{[]string{`controller.enabled=false`}, "node"},
		{[]string{`controller.config={"dryRun":true}`}, "node"},
		{[]string{`controller.config={"evictionRecordNamespace":""}`}, "node"},
		{[]string{`agent.config={"evictionRecordOwner":"node"}`}, "node"},
	} {
		all := helm.made(t, c.values...)
		read, err := config.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-agent").Data["agent.yaml"]))
		if err != nil || read.EvictionRecordOwner != c.owner {
			t.Errorf("%v: records are owned by %s, want %s, %v", c.values, read.EvictionRecordOwner, c.owner, err)
		}
	}
	for _, value := range []string{`agent.enabled=true`, `agent.enabled=false`} {
		text, err := helm.template(t, value)
		if n := strings.Count(text, "\nkind: Namespace\n"); err != nil || n != 1 {
			t.Errorf("%s: %d namespaces, %v", value, n, err)
		}
	}
}

// TestConfigCheck_ReadsInstalledFiles checks that the Job that runs before everything else
// reads the very files that agents and controllers get.
func TestConfigCheck_ReadsInstalledFiles(t *testing.T) {
	helm := needTool(t, "helm")
	all := helm.made(t, `agent.config={"evictionHard":{"memory.available":"700Mi"}}`, `controller.config.mode="replace"`, `fullnameOverride="mark"`)
	files := find[*corev1.ConfigMap](t, all, "ConfigMap/mark-config-check")
	for name, component := range map[string]string{"agent.yaml": "mark-agent", "controller.yaml": "mark-controller"} {
		if installed := find[*corev1.ConfigMap](t, all, "ConfigMap/"+component).Data[name]; installed == "" || files.Data[name] != installed {
			t.Errorf("%s is checked as\n%s\nand installed as\n%s", name, files.Data[name], installed)
		}
	}
	job := find[*batchv1.Job](t, all, "Job/mark-config-check")
	hook := job.Annotations["helm.sh/hook"]
	if !strings.Contains(hook, "pre-install") || !strings.Contains(hook, "pre-upgrade") || files.Annotations["helm.sh/hook"] != hook || files.Annotations["helm.sh/hook-weight"] != "-5" {
		t.Errorf("it runs at %q, after its files: %v", hook, files.Annotations)
	}
	container := job.Spec.Template.Spec.Containers[0]
	if got := strings.Join(container.Args, " "); got != "config check /etc/plimsoll/agent.yaml /etc/plimsoll/controller.yaml" {
		t.Errorf("it runs plimsoll %s", got)
	}
	if rule := job.Spec.PodFailurePolicy.Rules[0]; rule.Action != batchv1.PodFailurePolicyActionFailJob || rule.OnExitCodes.Values[0] != 2 {
		t.Errorf("a faulty configuration is retried: %+v", rule)
	}
	for name := range helm.made(t, `configCheck.enabled=false`) {
		if strings.Contains(name, "config-check") {
			t.Errorf("switched off, there is %s", name)
		}
	}
}
