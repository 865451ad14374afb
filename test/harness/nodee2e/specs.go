package main

import (
	"fmt"
	"strings"
)

// spec is one eviction spec of the node tests.
type spec struct {
	name  string
	focus string // regular expression for its full text
	// prepulled: the spec pulls every image of the tests before it begins.
	prepulled bool
}

// specs lists the specs of eviction_test.go and of its siblings that evict by pressure of the node.
var specs = []spec{
	{name: "MemoryAllocatableEviction", focus: `\[sig-node\] MemoryAllocatableEviction \[`},
	{name: "MemoryAllocatableEvictionPodLevelResources", focus: `\[sig-node\] MemoryAllocatableEvictionPodLevelResources \[`},
	{name: "PriorityMemoryEvictionOrdering", focus: `\[sig-node\] PriorityMemoryEvictionOrdering \[`},
	{name: "PriorityMemoryEvictionOrderingPodLevelResources", focus: `\[sig-node\] PriorityMemoryEvictionOrderingPodLevelResources \[`},
	{name: "PriorityPidEvictionOrdering-cri", focus: `\[sig-node\] PriorityPidEvictionOrdering \[.*PodAndContainerStatsFromCRI=true`},
	{name: "PriorityPidEvictionOrdering", focus: `\[sig-node\] PriorityPidEvictionOrdering \[.*PodAndContainerStatsFromCRI=false`},
	{name: "PriorityPidEvictionOrdering-DisruptionTarget", focus: `\[sig-node\] PriorityPidEvictionOrdering \[.*baseline scenario`},
	{name: "LocalStorageEviction", focus: `\[sig-node\] LocalStorageEviction \[`},
	{name: "LocalStorageSoftEviction", focus: `\[sig-node\] LocalStorageSoftEviction \[`},
	{name: "LocalStorageSoftEvictionNotOverwriteTerminationGracePeriodSeconds", focus: `\[sig-node\] LocalStorageSoftEvictionNotOverwriteTerminationGracePeriodSeconds \[`},
	{name: "LocalStorageCapacityIsolationEviction", focus: `\[sig-node\] LocalStorageCapacityIsolationEviction \[`},
	{name: "PriorityLocalStorageEvictionOrdering", focus: `\[sig-node\] PriorityLocalStorageEvictionOrdering \[`},
	{name: "InodeEviction", focus: `\[sig-node\] InodeEviction \[`},
	{name: "ImageGCNoEviction", focus: `\[sig-node\] ImageGCNoEviction \[`, prepulled: true},
	{name: "ImageGCTerminatedPodsContainersCleanup", focus: `\[sig-node\] ImageGCTerminatedPodsContainersCleanup \[`, prepulled: true},
	{name: "SystemNodeCriticalPod", focus: `\[sig-node\] SystemNodeCriticalPod \[`},
}

func find(name string) (spec, error) {
	var names []string
	for _, s := range specs {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return spec{}, fmt.Errorf("there is no spec %q: want one of %s", name, strings.Join(names, ", "))
}
