package chart_test

import "testing"

// TestWhatIsRefused: a value that is misspelt, of another type, or that can not
// work is told, before anything is installed.
func TestWhatIsRefused(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		value string
		words []string // of the refusal
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
		{`agent.resources.request={}`, []string{"request"}},
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
		{`leave.onUninstal=false`, []string{"onUninstal"}},

		{`metrics.rules.enabled=true`, []string{"PrometheusRule", "Prometheus operator"}},
		{`metrics.podMonitor.enabled=true`, []string{"PodMonitor", "Prometheus operator"}},
		{`metrics.readers=["prometheus"]`, []string{"/metrics/readers/0"}},
		{`policies.kubeletKeepsConditions=true`, []string{"policies.kubeletKeepsConditions", "Kubernetes 1.36"}},
		{`agent.config.heartbeatNamespace="kube-system"`, []string{"agent.config.heartbeatNamespace", "leave it out"}},
		{`controller.config.leaderElectResourceNamespace="kube-system"`, []string{"leaderElectResourceNamespace", "leave it out"}},
		{`controller.config.leaderElect=false`, []string{"controller.replicas=1"}},
	} {
		if _, err := helm.template(t, c.value); refused(err, c.words...) != nil {
			t.Errorf("%s: %v", c.value, refused(err, c.words...))
		}
	}
}

// TestMonitors_RefusedIfNothingCanBeRead: Prometheus would be refused, or not reach the
// pods.
func TestMonitors_RefusedIfNothingCanBeRead(t *testing.T) {
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

// TestMonitorsNeedAnAddress: endpoints on loopback are read by nobody.
func TestMonitorsNeedAnAddress(t *testing.T) {
	helm := needTool(t, "helm")
	_, err := helm.template(t, `hostNetwork=true`, `metrics.podMonitor.enabled=true`, "--api-versions=monitoring.coreos.com/v1/PodMonitor")
	if err := refused(err, "healthzBindAddress", "0.0.0.0"); err != nil {
		t.Error(err)
	}
}
