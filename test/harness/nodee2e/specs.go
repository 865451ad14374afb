package main

import (
	"fmt"
	"strings"
)

// spec is one eviction spec of the node tests.
type spec struct {
	name   string // upstream's, with a suffix after a hyphen where one has several contexts
	within string // regular expression for the context
	// prepulled: the spec pulls every image of the tests before it begins.
	prepulled bool
}

// specs lists the specs of eviction_test.go and of its siblings that evict by pressure of the node.
var specs = []spec{
	{name: "MemoryAllocatableEviction"},
	{name: "MemoryAllocatableEvictionPodLevelResources"},
	{name: "PriorityMemoryEvictionOrdering"},
	{name: "PriorityMemoryEvictionOrderingPodLevelResources"},
	{name: "PriorityPidEvictionOrdering-cri", within: `.*PodAndContainerStatsFromCRI=true`},
	{name: "PriorityPidEvictionOrdering", within: `.*PodAndContainerStatsFromCRI=false`},
	{name: "PriorityPidEvictionOrdering-DisruptionTarget", within: `.*baseline scenario`},
	{name: "LocalStorageEviction"},
	{name: "LocalStorageSoftEviction"},
	{name: "LocalStorageSoftEvictionNotOverwriteTerminationGracePeriodSeconds"},
	{name: "LocalStorageCapacityIsolationEviction"},
	{name: "PriorityLocalStorageEvictionOrdering"},
	{name: "InodeEviction"},
	{name: "ImageGCNoEviction", prepulled: true},
	{name: "ImageGCTerminatedPodsContainersCleanup", prepulled: true},
	{name: "SystemNodeCriticalPod"},
}

// focus returns a regular expression for the full text of the spec, and of no other.
func (s spec) focus() string {
	upstream, _, _ := strings.Cut(s.name, "-")
	return `\[sig-node\] ` + upstream + ` \[` + s.within
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
