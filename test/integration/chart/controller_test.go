package chart_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/doctor/clusterprobe"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

// TestController_DoctorDetectsMode covers the doctor of a cluster, which reads command
// lines, not configuration files. Beside kube-controller-manager's own controllers it reports a
// controller that acts, and no other.
func TestController_DoctorDetectsMode(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		values []string
		acts   bool
	}{
		{nil, false},
		{[]string{`controller.config.mode="observe"`}, false},
		{[]string{`controller.config.mode=null`}, false},
		{[]string{`controller.config.mode="replace"`}, true},
		{[]string{`controller.config={"mode":"replace","dryRun":true}`}, false},
		{[]string{`controller.config={"mode":"replace","dryRun":false}`, `fullnameOverride="mark"`}, true},
	} {
		pod := controllerPod(t, helm, c.values)
		client := fake.NewClientset(pod, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager-1"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"kube-controller-manager"}}}},
		})
		facts := clusterprobe.Cluster(t.Context(), clusterprobe.Options{Client: offline{apitest.From(client)}, Namespace: namespace})
		known, reported := false, false
		for _, j := range facts.LifecycleControllers.Value {
			known = known || j.Ours && j.Acts == doctor.Known(c.acts)
		}
		for _, f := range doctor.ExamineCluster(facts) {
			reported = reported || f.Code == "two-lifecycle-controllers"
		}
		if !known || reported != c.acts {
			t.Errorf("%v: two lifecycle controllers reported %v, want %v; the doctor found %+v", c.values, reported, c.acts, facts.LifecycleControllers)
		}
	}
}

// offline is a cluster without a server, so its clock can not be read.
type offline struct{ api.Interface }

func (offline) Core() rest.Interface { return nil }

// controllerPod returns a pod of the Deployment with these values. Its command line and its
// file have the same mode.
func controllerPod(t *testing.T, helm *tool, values []string) *corev1.Pod {
	t.Helper()
	all := helm.made(t, values...)
	for _, o := range all {
		d, is := o.(*appsv1.Deployment)
		if !is {
			continue
		}
		file, err := controllerconfig.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/"+d.Name).Data["controller.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		args := d.Spec.Template.Spec.Containers[0].Args
		if !slices.Contains(args, "--mode="+file.Mode) || slices.Contains(args, "--dry-run=true") != file.DryRun {
			t.Errorf("%v: the file has mode %s, dryRun %v; the flags are %q", values, file.Mode, file.DryRun, args)
		}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.Name + "-1"}, Spec: d.Spec.Template.Spec}
	}
	t.Fatalf("%v: there is no Deployment", values)
	return nil
}

// TestController_ReadsMountedCertificate checks that the configured files are mounted at the
// configured paths.
func TestController_ReadsMountedCertificate(t *testing.T) {
	all := needTool(t, "helm").made(t,
		`controller.config={"tlsCertFile":"/tls/tls.crt","tlsPrivateKeyFile":"/tls/tls.key"}`,
		`controller.extraVolumes=[{"name":"tls","secret":{"secretName":"controller-tls"}}]`,
		`controller.extraVolumeMounts=[{"name":"tls","mountPath":"/tls","readOnly":true}]`)
	spec := find[*appsv1.Deployment](t, all, "Deployment/plimsoll-controller").Spec.Template.Spec
	var mounted, secret string
	for _, m := range spec.Containers[0].VolumeMounts {
		if m.Name == "tls" {
			mounted = m.MountPath
		}
	}
	for _, v := range spec.Volumes {
		if v.Name == "tls" && v.Secret != nil {
			secret = v.Secret.SecretName
		}
	}
	if mounted != "/tls" || secret != "controller-tls" {
		t.Errorf("the Secret %q is mounted at %q: %+v", secret, mounted, spec)
	}
}

// TestAgent_ReadsKubeletConfigOfItsRoot checks that the kubelet's configuration is read from
// its root directory, unless the values name another file.
func TestAgent_ReadsKubeletConfigOfItsRoot(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, "/var/lib/kubelet/config.yaml"},
		{[]string{`agent.host.kubelet="/data/kubelet"`}, "/data/kubelet/config.yaml"},
		{[]string{`agent.host.kubelet="/data/kubelet"`, `agent.config.kubeletConfig="/etc/kubelet.yaml"`}, "/etc/kubelet.yaml"},
	} {
		files := find[*corev1.ConfigMap](t, helm.made(t, c.values...), "ConfigMap/plimsoll-agent")
		read, err := agentconfig.ParseFile([]byte(files.Data["agent.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		if read.KubeletConfig != c.want {
			t.Errorf("%v: the agent reads %s, want %s", c.values, read.KubeletConfig, c.want)
		}
	}
}
