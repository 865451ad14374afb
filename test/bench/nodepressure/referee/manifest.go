package referee

import (
	"encoding/json"
	"fmt"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

// manifest returns a pod as a Kubernetes object in JSON, which is YAML too: what a contestant that knows
// pods sees of it.
func manifest(name, uid string, pod *spec.Pod, qos arena.QoS, total int64) ([]byte, error) {
	type object = map[string]any
	requests, limits := object{}, object{}
	if n := pod.Request.Of(total); n > 0 {
		requests["memory"] = fmt.Sprint(n)
	}
	if n := pod.Limit.Of(total); n > 0 {
		limits["memory"] = fmt.Sprint(n)
	}
	if qos == arena.Guaranteed {
		requests["cpu"], limits["cpu"] = "100m", "100m"
	}
	return json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": name, "namespace": "default", "uid": uid},
		"spec": object{
			"priority":   pod.Priority,
			"containers": []object{{"name": "main", "image": "node-pressure-bench", "resources": object{"requests": requests, "limits": limits}}},
		},
	}, "", "  ")
}
