package agentpods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// fromYAML returns a pod as an API server would store it.
func fromYAML(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	if pod.Name == "" {
		pod.Name, pod.Namespace, pod.UID = "p", "default", "u1"
	}
	return pod
}

// The rank depends on the resources granted by the node.
func TestRequestsAsAllocated(t *testing.T) {
	const spec2Gi = "spec: {containers: [{name: a, resources: {requests: {memory: 2Gi, ephemeral-storage: 1G}}}]}\n"
	for _, tc := range []struct{ name, pod, memory, container string }{
		{"no status yet", spec2Gi, "2Gi", "2Gi"},
		{"a kubelet that does not resize in place", spec2Gi + "status: {containerStatuses: [{name: a}]}", "2Gi", "2Gi"},
		{"nothing pending", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 2Gi}}}]}", "2Gi", "2Gi"},
		{"a resize up that the kubelet has not seen", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}, resources: {requests: {memory: 1Gi}}}]}", "1Gi", "1Gi"},
		{"a resize up that is deferred", spec2Gi + `
status:
  conditions: [{type: PodResizePending, status: "True", reason: Deferred}]
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi, ephemeral-storage: 1G}, resources: {requests: {memory: 1Gi}}}]
`, "1Gi", "1Gi"},
		{"a resize up that is infeasible", spec2Gi + `
status:
  conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}, resources: {requests: {memory: 1536Mi}}}]
`, "1Gi", "1Gi"},
		{"a resize up in progress: granted, not yet enacted", spec2Gi + `
status:
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 1Gi}}}]
`, "2Gi", "2Gi"},
		{"a resize down in progress: granted, not yet enacted", spec2Gi + `
status:
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 4Gi}}}]
`, "2Gi", "2Gi"},
		{"a resize down that the kubelet has not seen", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {memory: 4Gi}, resources: {requests: {memory: 4Gi}}}]}", "4Gi", "4Gi"},
		{"a first request that is not granted yet", spec2Gi + "status: {containerStatuses: [{name: a, resources: {}}]}", "0", "0"},
		{"a request for CPU alone was granted", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {cpu: 100m}}]}", "0", "0"},
		{"only one of two containers is told", `
spec: {containers: [{name: a, resources: {requests: {memory: 2Gi}}}, {name: b, resources: {requests: {memory: 2Gi}}}]}
status: {containerStatuses: [{name: b, allocatedResources: {memory: 1Gi}}]}
`, "3Gi", "2Gi"},
		{"a sidecar is resized", `
spec:
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}]
  initContainers: [{name: s, restartPolicy: Always, resources: {requests: {memory: 4Gi}}}]
status:
  initContainerStatuses: [{name: s, allocatedResources: {memory: 1Gi}}]
`, "2Gi", "1Gi"},
		{"an init container that needs more than what was granted beside it", `
spec:
  containers: [{name: a, resources: {requests: {memory: 4Gi}}}]
  initContainers: [{name: i, resources: {requests: {memory: 3Gi}}}]
status:
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}}]
  initContainerStatuses: [{name: i, allocatedResources: {memory: 3Gi}}]
`, "3Gi", "1Gi"},
		{"overhead comes on top of what was granted", `
spec: {overhead: {memory: 100Mi}, containers: [{name: a, resources: {requests: {memory: 2Gi}}}]}
status: {containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}}]}
`, "1124Mi", "1Gi"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := agentpods.Convert(fromYAML(t, tc.pod))
			if got := pod.MemoryRequest.String(); got != tc.memory {
				t.Errorf("memory request %s, want %s", got, tc.memory)
			}
			if got := pod.Containers[0].MemoryRequest.String(); got != tc.container {
				t.Errorf("memory request of the first container %s, want %s", got, tc.container)
			}
		})
	}
}

func TestPodLevelRequestsAsAllocated(t *testing.T) {
	const spec = `
spec:
  overhead: {memory: 100Mi}
  resources: {requests: {memory: 3Gi, cpu: "1"}}
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}]
`
	for _, tc := range []struct{ name, status, memory, own string }{
		{"no status yet", "", "3172Mi", "3Gi"},
		{"nothing told of the pod's level", "status: {containerStatuses: [{name: a, allocatedResources: {memory: 512Mi}}]}", "3172Mi", "3Gi"},
		{"a resize up is pending", "status: {allocatedResources: {memory: 2148Mi, cpu: 500m}}", "2148Mi", "2Gi"},
		{"a resize up was granted", "status: {allocatedResources: {memory: 3172Mi}, resources: {requests: {memory: 2Gi}}}", "3172Mi", "3Gi"},
		{"less than the overhead can not be meant", "status: {allocatedResources: {memory: 1Mi}}", "3172Mi", "3Gi"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := fromYAML(t, spec+tc.status)
			before := object.DeepCopy()
			pod := agentpods.Convert(object)
			if got := pod.MemoryRequest.String(); got != tc.memory {
				t.Errorf("memory request %s, want %s", got, tc.memory)
			}
			if got := pod.PodLevelMemoryRequest.String(); got != tc.own {
				t.Errorf("request of the pod's own level %s, want %s", got, tc.own)
			}
			if before.String() != object.String() {
				t.Error("the pod that was converted has changed: others hold it too")
			}
		})
	}
}

// Storage cannot be resized: the status has no effect on it.
func TestOnlyMemoryIsTakenFromTheStatus(t *testing.T) {
	pod := agentpods.Convert(fromYAML(t, `
spec: {containers: [{name: a, resources: {requests: {memory: 2Gi, ephemeral-storage: 1G}}}]}
status: {containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}}]}
`))
	if got := pod.StorageRequest.String() + " " + pod.Containers[0].StorageRequest.String(); got != "1G 1G" {
		t.Errorf("storage requests %s, want 1G 1G", got)
	}
}
