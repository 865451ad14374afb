package cluster_test

import "testing"

// Regression tests for differences found by the reference model.
func TestScenario_RegressionsFoundByReferenceModel(t *testing.T) {
	const three = "nodes: [{metadata: {name: a}, count: 3}]\nuntil: 20m\n"
	const node = "node.kubernetes.io/"
	web := func(tolerations string) string {
		return "pods: [{metadata: {name: web}, spec: {nodeName: a-0, tolerations: [" + tolerations + "]}}]\n"
	}
	for _, c := range []struct{ name, file, word, want string }{
		{"user's taint of any key without the product's taints",
			"config: {taintBasedEvictions: false}\n" + three + web("{operator: Exists, tolerationSeconds: 20}") +
				"events: [{at: 10s, taint: {nodes: [a-0], key: " + node + "not-ready, effect: NoExecute}}]",
			"web", "30s a-0 web evict"},
		{"moved deadline without a cancellation",
			three + web("{key: k, operator: Exists, tolerationSeconds: 300}, {operator: Exists, tolerationSeconds: 100}") + `events: [
{at: 10s, taint: {nodes: [a-0], key: k, effect: NoExecute}},
{at: 20s, untaint: {nodes: [a-0], key: k, effect: NoExecute}}, {at: 20s, ready: {nodes: [a-0], status: "False"}}]`,
			"web", "120s a-0 web evict"},
		{"moved deadline with a replaced node",
			three + web("{operator: Exists, tolerationSeconds: 300}") + `events: [
{at: 10s, taint: {nodes: [a-0], key: k, effect: NoExecute}}, {at: 20s, deleteNode: [a-0]},
{at: 20s, addNode: {metadata: {name: a-0}, status: {conditions: [{type: Ready, status: "False"}]}}}]`,
			"web", "320s a-0 web evict"},
		{"taint removed in the instant of its addition",
			three + web("{key: "+node+"not-ready, operator: Exists}, {operator: Exists, tolerationSeconds: 30}") + `events: [
{at: 10s, ready: {nodes: [a-0], status: "False"}}, {at: 20s, taint: {nodes: [a-0], key: ` + node + `unreachable, effect: NoExecute}}]`,
			"web", ""},
		{"pods ready for an instant",
			three + web("{operator: Exists}") + `events: [
{at: 10s, stop: [a-0]}, {at: 60s, ready: {nodes: [a-0], status: "True"}}, {at: 60s, ready: {nodes: [a-0], status: "False"}}]`,
			"web", "40s a-0 web pod-not-ready; 100s a-0 web pod-not-ready"},
		{"node that reports not ready without taints",
			"config: {nodeMonitorGracePeriod: 40s, enableTaintManager: false, podEvictionTimeout: 100s}\n" + three + web("") + `events: [
{at: 10s, stop: [a-0]}, {at: 200s, ready: {nodes: [a-0], status: "False"}},
{at: 210s, addPod: {metadata: {name: web-2}, spec: {nodeName: a-0}}}]`,
			"evict", "100s a-0 web evict; 300s a-0 web-2 evict"},
		{"token due at the failover",
			"config: {nodeMonitorGracePeriod: 40s, unhealthyZoneThreshold: 1}\nnodes: [{metadata: {name: a}, count: 9}]\nuntil: 65s\n" + `events: [
{at: 43s, ready: {nodes: [a-1, a-2], status: "False"}}, {at: 50s, ready: {nodes: [a-3], status: "False"}}, {at: 53s, restart: true}]`,
			"NoExecute", "43s a-1 add " + "not-ready NoExecute taint; 53s a-2 add not-ready NoExecute taint; 63s a-3 add not-ready NoExecute taint"},
		{"node that reports Unknown",
			"config: {nodeMonitorGracePeriod: 40s}\nnodes: [{metadata: {name: a}, count: 3}]\nuntil: 345s\n" + `events: [
{at: 10s, ready: {nodes: [a-0], status: Unknown}}, {at: 10s, condition: {nodes: [a-0], type: DiskPressure, status: "True"}}, {at: 60s, stopLease: [a-0]}]`,
			"disk", "10s a-0 add disk-pressure NoSchedule taint; 90s a-0 remove disk-pressure NoSchedule taint; 300s a-0 add disk-pressure NoSchedule taint; 340s a-0 remove disk-pressure NoSchedule taint"},
		{"grace period of centuries",
			"config: {nodeMonitorGracePeriod: 2562047h, nodeStartupGracePeriod: 2562047h, enableTaintManager: false, podEvictionTimeout: 2562047h}\n" + three + web("") +
				`events: [{at: 10s, stop: [a-0]}, {at: 20s, ready: {nodes: [a-1], status: "False"}}]`,
			"a-0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := only(brief(t, c.file), c.word); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
