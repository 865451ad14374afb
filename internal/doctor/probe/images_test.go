package probe_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/doctor/probe"
)

// The name of a pod's image must not disarm the agent. It counts if the pod has access to its node,
// which requires a privilege.
func TestNode_ImagesOfPrivilegedPodsOnly(t *testing.T) {
	yes := true
	specs := map[string]corev1.PodSpec{
		"plain":   {Volumes: []corev1.Volume{{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}},
		"pid":     {HostPID: true},
		"network": {HostNetwork: true},
		"ipc":     {HostIPC: true},
		"path":    {Volumes: []corev1.Volume{{Name: "p", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}},
	}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for name, spec := range specs {
		spec.Containers = []corev1.Container{{Name: "c", Image: name}}
		pods.Items = append(pods.Items, corev1.Pod{Spec: spec})
	}
	pods.Items = append(pods.Items, corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Image: "privileged", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}}})
	text, err := json.Marshal(pods)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}))
	defer server.Close()
	o := options(tree(t, host))
	o.Client, o.NodeName = clientOf(t, server.URL), "n"
	images := probe.Node(t.Context(), o).Server.Images
	slices.Sort(images.Value)
	if want := []string{"ipc", "network", "path", "pid", "privileged"}; !images.Known || !slices.Equal(images.Value, want) {
		t.Errorf("%+v, want %v", images, want)
	}
}
