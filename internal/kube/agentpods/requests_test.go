package agentpods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

func TestParseManifest_EffectiveRequests(t *testing.T) {
	for _, tc := range []struct{ name, spec, memory, storage string }{
		{"sum of containers", `spec: {containers: [{name: a, resources: {requests: {memory: 1Gi, ephemeral-storage: 1G}}}, {name: b, resources: {requests: {memory: 512Mi}}}]}`, "1536Mi", "1G"},
		{"larger init container", `spec: {initContainers: [{name: i, resources: {requests: {memory: 2Gi}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "2Gi", "0"},
		{"largest of several init containers", `spec: {initContainers: [{name: i, resources: {requests: {memory: 2Gi}}}, {name: j, resources: {requests: {memory: 3Gi}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "3Gi", "0"},
		{"init container larger in one resource", `spec: {initContainers: [{name: i, resources: {requests: {memory: 1Gi, ephemeral-storage: 3G}}}], containers: [{name: a, resources: {requests: {memory: 2Gi, ephemeral-storage: 1G}}}]}`, "2Gi", "3G"},
		{"sidecar added to containers", `spec: {initContainers: [{name: s, restartPolicy: Always, resources: {requests: {memory: 1Gi, ephemeral-storage: 1G}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "2Gi", "1G"},
		{"sidecar beside a later init container", `spec: {initContainers: [{name: s, restartPolicy: Always, resources: {requests: {memory: 1Gi}}}, {name: i, resources: {requests: {memory: 3Gi}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "4Gi", "0"},
		{"sidecar after an init container", `spec: {initContainers: [{name: i, resources: {requests: {memory: 3Gi}}}, {name: s, restartPolicy: Always, resources: {requests: {memory: 1Gi}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "3Gi", "0"},
		{"init container that does not restart", `spec: {initContainers: [{name: i, restartPolicy: Never, resources: {requests: {memory: 1Gi}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "1Gi", "0"},
		{"overhead added to a request", `spec: {overhead: {memory: 100Mi}, containers: [{name: a, resources: {requests: {memory: 1Gi, ephemeral-storage: 1G}}}]}`, "1124Mi", "1G"},
		{"overhead added to an init container's request", `spec: {overhead: {memory: 100Mi}, initContainers: [{name: i, resources: {requests: {memory: 2Gi}}}], containers: [{name: a, resources: {requests: {memory: 1Gi}}}]}`, "2148Mi", "0"},
		{"overhead without a request", `spec: {overhead: {memory: 100Mi, ephemeral-storage: 1G}, containers: [{name: a}]}`, "0", "0"},
		{"pod-level request", `spec: {resources: {requests: {memory: 3Gi}}, containers: [{name: a, resources: {requests: {memory: 1Gi, ephemeral-storage: 1Gi}}}]}`, "3Gi", "0"},
		{"pod-level request in place of sidecars and init containers", `spec: {resources: {requests: {memory: 3Gi}}, initContainers: [{name: i, resources: {requests: {memory: 4Gi}}}, {name: s, restartPolicy: Always, resources: {requests: {memory: 2Gi}}}], containers: [{name: a, resources: {requests: {memory: 2Gi}}}]}`, "3Gi", "0"},
		{"pod-level request and overhead", `spec: {overhead: {memory: 100Mi}, resources: {requests: {memory: 3Gi}}, containers: [{name: a}]}`, "3172Mi", "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := convert(t, tc.spec)
			if got := pod.MemoryRequest.String(); got != tc.memory {
				t.Errorf("memory request %s, want %s", got, tc.memory)
			}
			if got := pod.StorageRequest.String(); got != tc.storage {
				t.Errorf("storage request %s, want %s", got, tc.storage)
			}
		})
	}
}

// While a resize is pending or in progress, the scheduler counts the largest of the requested, the
// granted and the effective memory, unless the resize is infeasible. The ranking counts the granted
// memory, as the kubelet does: otherwise a pod would improve its rank by requests that are never
// granted.
func TestConvert_RequestIsNotTheSchedulers(t *testing.T) {
	const (
		spec     = "spec: {containers: [{name: a, resources: {requests: {memory: 2Gi}}}]}\nstatus:\n"
		podLevel = "spec: {resources: {requests: {memory: 2Gi}}, containers: [{name: a}]}\nstatus:\n"
	)
	for _, tc := range []struct{ name, pod, ranking, scheduler string }{
		{"no resize", spec + "  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 2Gi}}}]", "2Gi", "2Gi"},
		{"deferred increase", spec + `
  conditions: [{type: PodResizePending, status: "True", reason: Deferred}]
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}, resources: {requests: {memory: 1Gi}}}]`, "1Gi", "2Gi"},
		{"infeasible increase", spec + `
  conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]
  containerStatuses: [{name: a, allocatedResources: {memory: 1Gi}, resources: {requests: {memory: 1Gi}}}]`, "1Gi", "1Gi"},
		{"increase in progress", spec + `
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 1Gi}}}]`, "2Gi", "2Gi"},
		{"decrease in progress", spec + `
  conditions: [{type: PodResizeInProgress, status: "True"}]
  containerStatuses: [{name: a, allocatedResources: {memory: 2Gi}, resources: {requests: {memory: 4Gi}}}]`, "2Gi", "4Gi"},
		{"deferred increase of the pod level", podLevel + `
  conditions: [{type: PodResizePending, status: "True", reason: Deferred}]
  allocatedResources: {memory: 1Gi}
  resources: {requests: {memory: 1Gi}}`, "1Gi", "2Gi"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := fromYAML(t, tc.pod)
			scheduled := podresource.PodRequests(object, podresource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
			if q := scheduled[corev1.ResourceMemory]; q.String() != tc.scheduler {
				t.Errorf("the scheduler counts %s, want %s", q.String(), tc.scheduler)
			}
			if pod := agentpods.Convert(object); pod.MemoryRequest.String() != tc.ranking {
				t.Errorf("the ranking counts %s, want %s", pod.MemoryRequest, tc.ranking)
			}
		})
	}
}
