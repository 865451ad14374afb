package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// podsOf returns the pods of agents, controllers and Jobs, by the name of their object.
func podsOf(all map[string]runtime.Object) map[string]*corev1.PodTemplateSpec {
	pods := map[string]*corev1.PodTemplateSpec{}
	for name, o := range all {
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			pods[name] = &o.Spec.Template
		case *appsv1.Deployment:
			pods[name] = &o.Spec.Template
		case *batchv1.Job:
			pods[name] = &o.Spec.Template
		}
	}
	return pods
}

// everyKind are values with which the chart has every kind of object.
var everyKind = []string{mutating, `agent.securityContextConstraints="privileged"`, `metrics.readers=[{"kind":"User","name":"prometheus"}]`,
	`metrics.serviceMonitor={"enabled":true,"labels":{"team":"metrics"}}`, `metrics.podMonitor.enabled=true`, `metrics.authorization={"credentials":{"name":"p","key":"token"}}`,
	`metrics.rules.enabled=true`, `dashboards={"enabled":true,"annotations":{"owner":"dashboards"}}`,
	"--api-versions=monitoring.coreos.com/v1/ServiceMonitor", "--api-versions=monitoring.coreos.com/v1/PodMonitor", "--api-versions=monitoring.coreos.com/v1/PrometheusRule"}

// TestCommonMetadata_ReachesEveryObject checks labels and annotations of every object. An object's own
// value wins, and the annotations of the chart remain.
func TestCommonMetadata_ReachesEveryObject(t *testing.T) {
	helm := needTool(t, "helm")
	before := helm.made(t, everyKind...)
	all := helm.made(t, append(slices.Clone(everyKind), `commonLabels={"team":"nodes"}`, `commonAnnotations={"owner":"sre","contact":"a: b"}`)...)
	if len(all) != len(before) || len(all) < 40 {
		t.Fatalf("%d objects, without labels %d", len(all), len(before))
	}
	for name, o := range all {
		described, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		old, err := meta.Accessor(before[name])
		if err != nil {
			t.Fatal(err)
		}
		team, owner := "nodes", "sre"
		if strings.HasPrefix(name, "ServiceMonitor/") {
			team = "metrics"
		}
		if name == "ConfigMap/plimsoll-dashboards" {
			owner = "dashboards"
		}
		want := with(old.GetAnnotations(), "owner", owner, "contact", "a: b")
		if diff := cmp.Diff(want, described.GetAnnotations()); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(with(old.GetLabels(), "team", team), described.GetLabels()); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", name, diff)
		}
	}
}

// with returns a copy of a map with further keys and values.
func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

// TestPodMetadata_ReachesPods checks the labels and annotations of pods: the more specific value wins,
// selectors remain, and a component's values do not reach the pods of another one.
func TestPodMetadata_ReachesPods(t *testing.T) {
	helm := needTool(t, "helm")
	before := podsOf(helm.made(t))
	all := helm.made(t, `commonLabels={"tier":"common","team":"nodes"}`, `podLabels={"tier":"pod"}`, `podAnnotations={"log":"pod","a":"b"}`,
		`agent.podLabels={"tier":"agent"}`, `agent.podAnnotations={"log":"agent"}`, `agent.labels={"team":"agents"}`, `agent.annotations={"set":"agent"}`,
		`controller.podLabels={"part":"controller"}`, `controller.podAnnotations={"log":"controller"}`, `controller.labels={"of":"controller"}`, `controller.annotations={"set":"controller"}`)
	pods := podsOf(all)
	if len(pods) != 5 {
		t.Fatalf("pods of %d objects, want agent, controller and three Jobs", len(pods))
	}
	for name, pod := range pods {
		labels := with(before[name].Labels, "tier", "pod", "team", "nodes")
		annotations := with(before[name].Annotations, "log", "pod", "a", "b")
		switch name {
		case "DaemonSet/plimsoll-agent":
			labels["tier"], annotations["log"] = "agent", "agent"
		case "Deployment/plimsoll-controller":
			labels["part"], annotations["log"] = "controller", "controller"
		}
		if diff := cmp.Diff(labels, pod.Labels); diff != "" {
			t.Errorf("%s: labels of pods (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(annotations, pod.Annotations); diff != "" {
			t.Errorf("%s: annotations of pods (-want +got):\n%s", name, diff)
		}
	}
	agents, controllers := find[*appsv1.DaemonSet](t, all, "DaemonSet/plimsoll-agent"), find[*appsv1.Deployment](t, all, "Deployment/plimsoll-controller")
	if agents.Labels["team"] != "agents" || agents.Labels["tier"] != "common" || agents.Annotations["set"] != "agent" {
		t.Errorf("the DaemonSet has labels %v, annotations %v", agents.Labels, agents.Annotations)
	}
	if controllers.Labels["of"] != "controller" || controllers.Labels["team"] != "nodes" || controllers.Annotations["set"] != "controller" {
		t.Errorf("the Deployment has labels %v, annotations %v", controllers.Labels, controllers.Annotations)
	}
}

// TestImage_OfEachComponent covers an image of agents or controllers alone. What is not given is that of
// image, but a tag is never used with the digest of another one.
func TestImage_OfEachComponent(t *testing.T) {
	helm := needTool(t, "helm")
	digest, other := "sha256:"+strings.Repeat("0", 64), "sha256:"+strings.Repeat("1", 64)
	for name, c := range map[string]struct {
		values            []string
		agent, controller string
	}{
		"common":             {[]string{`image={"repository":"r/p","tag":"1"}`}, "r/p:1", "r/p:1"},
		"tag":                {[]string{`image={"repository":"r/p","tag":"1"}`, `agent.image.tag="2"`}, "r/p:2", "r/p:1"},
		"repository":         {[]string{`image={"repository":"r/p","tag":"1"}`, `controller.image.repository="r/c"`}, "r/p:1", "r/c:1"},
		"digest":             {[]string{`image={"repository":"r/p","tag":"1"}`, `agent.image.digest="` + digest + `"`}, "r/p@" + digest, "r/p:1"},
		"common digest":      {[]string{`image={"repository":"r/p","digest":"` + digest + `"}`, `agent.image.repository="r/a"`}, "r/a@" + digest, "r/p@" + digest},
		"tag, common digest": {[]string{`image={"repository":"r/p","digest":"` + digest + `"}`, `agent.image.tag="2"`}, "r/p:2", "r/p@" + digest},
		"two digests": {[]string{`image={"repository":"r/p","digest":"` + digest + `"}`, `agent.image={"tag":"2","digest":"` + other + `"}`},
			"r/p@" + other, "r/p@" + digest},
	} {
		t.Run(name, func(t *testing.T) {
			pods := podsOf(helm.made(t, c.values...))
			for name, want := range map[string]string{"DaemonSet/plimsoll-agent": c.agent, "Job/plimsoll-cleanup": c.agent, "Job/plimsoll-test": c.agent, "Deployment/plimsoll-controller": c.controller} {
				if got := pods[name].Spec.Containers[0].Image; got != want {
					t.Errorf("%s: got image %s, want %s", name, got, want)
				}
			}
			want := map[string]string{c.agent: "config check /etc/plimsoll/agent.yaml", c.controller: "config check /etc/plimsoll/controller.yaml"}
			if c.agent == c.controller {
				want[c.agent] = "config check /etc/plimsoll/agent.yaml /etc/plimsoll/controller.yaml"
			}
			checks := map[string]string{}
			for _, container := range pods["Job/plimsoll-config-check"].Spec.Containers {
				checks[container.Image] = strings.Join(container.Args, " ")
			}
			if diff := cmp.Diff(want, checks); diff != "" {
				t.Errorf("each image checks the files of its programs (-want +got):\n%s", diff)
			}
		})
	}
	pods := podsOf(helm.made(t, `agent.image.pullPolicy="Always"`))
	if a, c := pods["DaemonSet/plimsoll-agent"].Spec.Containers[0].ImagePullPolicy, pods["Deployment/plimsoll-controller"].Spec.Containers[0].ImagePullPolicy; a != corev1.PullAlways || c != corev1.PullIfNotPresent {
		t.Errorf("pull policies: agent %s, controller %s", a, c)
	}
}

// TestExtraArgs_FollowOwnArguments checks that further arguments come last, so that they override.
func TestExtraArgs_FollowOwnArguments(t *testing.T) {
	pods := podsOf(needTool(t, "helm").made(t, `agent.extraArgs=["-v=2","--eviction-hard=memory.available<1Gi,pid.available<1k"]`, `controller.extraArgs=["--event-qps=5"]`))
	for name, want := range map[string][]string{
		"DaemonSet/plimsoll-agent":       {"agent", "--config=/etc/plimsoll/agent.yaml", "-v=2", "--eviction-hard=memory.available<1Gi,pid.available<1k"},
		"Deployment/plimsoll-controller": {"controller", "--config=/etc/plimsoll/controller.yaml", "--mode=observe", "--event-qps=5"},
	} {
		if diff := cmp.Diff(want, pods[name].Spec.Containers[0].Args); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPodSecurityContext_OfEveryPodButTheAgents covers the user of controller and Jobs. A field that is
// null is left to the platform.
func TestPodSecurityContext_OfEveryPodButTheAgents(t *testing.T) {
	helm := needTool(t, "helm")
	user, group, yes := int64(1000660000), int64(65532), true
	profile := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for name, c := range map[string]struct {
		values []string
		want   corev1.PodSecurityContext
	}{
		"defaults":     {nil, corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &group, RunAsGroup: &group, SeccompProfile: profile}},
		"a large user": {[]string{`podSecurityContext.runAsUser=1000660000`}, corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &group, SeccompProfile: profile}},
		"OpenShift":    {[]string{preset("openshift")}, corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: profile}},
		"null":         {[]string{`podSecurityContext={"runAsUser":null,"runAsGroup":null,"runAsNonRoot":null,"seccompProfile":null}`}, corev1.PodSecurityContext{}},
		"more": {[]string{`podSecurityContext={"runAsUser":null,"supplementalGroups":[7],"fsGroup":8}`},
			corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsGroup: &group, SeccompProfile: profile, SupplementalGroups: []int64{7}, FSGroup: ptr(int64(8))}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := podsOf(helm.made(t, c.values...))
			if own := pods["DaemonSet/plimsoll-agent"].Spec.SecurityContext; own != nil {
				t.Errorf("the agents have %+v", own)
			}
			delete(pods, "DaemonSet/plimsoll-agent")
			for name, pod := range pods {
				if diff := cmp.Diff(&c.want, pod.Spec.SecurityContext); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				for _, container := range pod.Spec.Containers {
					if s := container.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.RunAsNonRoot != nil || s.SeccompProfile != nil {
						t.Errorf("%s: %s overrides it: %+v", name, container.Name, s)
					}
				}
			}
		})
	}
}

func ptr[T any](value T) *T { return &value }
