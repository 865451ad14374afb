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
func TestConvert_UsesAllocatedRequests(t *testing.T) {
	const spec2Gi = "spec: {containers: [{name: a, resources: {requests: {memory: 2Gi, ephemeral-storage: 1G}}}]}\n"
	for _, tc := range []struct{ name, pod, memory, container string }{
		{"no status yet", spec2Gi, "2Gi", "2Gi"},
		{"kubelet without in-place resize", spec2Gi + "status: {containerStatuses: [{name: a}]}", "2Gi", "2Gi"},
		{"no pending resize", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 2Gi}}}]}", "2Gi", "2Gi"},
		{"increase unknown to the kubelet", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}, resources: {requests: {memory: 1Gi}}}]}", "1Gi", "1Gi"},
		{"deferred increase", spec2Gi + `
status:
  conditions: [{type: PodResizePending, status: "True", reason: Deferred}]
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi, ephemeral-storage: 1G}, resources: {requests: {memory: 1Gi}}}]
`, "1Gi", "1Gi"},
		{"infeasible increase", spec2Gi + `
status:
  conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}, resources: {requests: {memory: 1536Mi}}}]
`, "1Gi", "1Gi"},
		{"granted increase in progress", spec2Gi + `
status:
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 1Gi}}}]
`, "2Gi", "2Gi"},
		{"granted decrease in progress", spec2Gi + `
status:
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 4Gi}}}]
`, "2Gi", "2Gi"},
		{"decrease unknown to the kubelet", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {memory: 4Gi}, resources: {requests: {memory: 4Gi}}}]}", "4Gi", "4Gi"},
		{"first request not granted yet", spec2Gi + "status: {containerStatuses: [{name: a, resources: {}}]}", "0", "0"},
		{"granted request for CPU only", spec2Gi + "status: {containerStatuses: [{name: a, allocatedResources: {cpu: 100m}}]}", "0", "0"},
		{"status of one of two containers", `
spec: {containers: [{name: a, resources: {requests: {memory: 2Gi}}}, {name: b, resources: {requests: {memory: 2Gi}}}]}
status: {containerStatuses: [{name: b, allocatedResources: {memory: 1Gi}}]}
`, "3Gi", "2Gi"},
		{"resized sidecar", `
spec:
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}]
  initContainers: [{name: s, restartPolicy: Always, resources: {requests: {memory: 4Gi}}}]
status:
  initContainerStatuses: [{name: s, allocatedResources: {memory: 1Gi}}]
`, "2Gi", "1Gi"},
		{"init container above the granted requests", `
spec:
  containers: [{name: a, resources: {requests: {memory: 4Gi}}}]
  initContainers: [{name: i, resources: {requests: {memory: 3Gi}}}]
status:
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}}]
  initContainerStatuses: [{name: i, allocatedResources: {memory: 3Gi}}]
`, "3Gi", "1Gi"},
		{"overhead added to the granted request", `
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

func TestConvert_UsesAllocatedPodLevelRequests(t *testing.T) {
	const spec = `
spec:
  overhead: {memory: 100Mi}
  resources: {requests: {memory: 3Gi, cpu: "1"}}
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}]
`
	for _, tc := range []struct{ name, status, memory, own string }{
		{"no status yet", "", "3172Mi", "3Gi"},
		{"no pod-level status", "status: {containerStatuses: [{name: a, allocatedResources: {memory: 512Mi}}]}", "3172Mi", "3Gi"},
		{"pending increase", "status: {allocatedResources: {memory: 2148Mi, cpu: 500m}}", "2148Mi", "2Gi"},
		{"granted increase", "status: {allocatedResources: {memory: 3172Mi}, resources: {requests: {memory: 2Gi}}}", "3172Mi", "3Gi"},
		{"less than the overhead", "status: {allocatedResources: {memory: 1Mi}}", "3172Mi", "3Gi"},
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
				t.Error("the converted object was modified, but it is shared")
			}
		})
	}
}

// Storage cannot be resized: the status has no effect on it.
func TestConvert_StorageRequestsFromSpec(t *testing.T) {
	pod := agentpods.Convert(fromYAML(t, `
spec: {containers: [{name: a, resources: {requests: {memory: 2Gi, ephemeral-storage: 1G}}}]}
status: {containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}}]}
`))
	if got := pod.StorageRequest.String() + " " + pod.Containers[0].StorageRequest.String(); got != "1G 1G" {
		t.Errorf("storage requests %s, want 1G 1G", got)
	}
}
