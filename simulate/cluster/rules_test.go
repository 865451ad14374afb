package cluster_test

import (
	"fmt"
	"strings"
	"testing"
)

// brief returns the output of a scenario in short form, a word or two per line.
func brief(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains(text, "config:") {
		text = "config: {nodeMonitorGracePeriod: 40s}\n" + text
	}
	lines, _ := output(t, read(t, head+text))
	var b strings.Builder
	for _, l := range decoded(t, lines) {
		fmt.Fprintf(&b, "%v ", l.keys["at"])
		for _, key := range []string{"node", "pod", "zone", "state", "rate", "type", "op", "key", "effect", "value"} {
			if v, is := l.keys[key]; is {
				fmt.Fprintf(&b, "%v ", v)
			}
		}
		fmt.Fprintf(&b, "%v\n", l.keys["do"])
	}
	return strings.NewReplacer("node.kubernetes.io/", "", "default/", "").Replace(b.String())
}

// only returns the lines that contain a word.
func only(lines, word string) string {
	var kept []string
	for l := range strings.Lines(lines) {
		if strings.Contains(l, word) {
			kept = append(kept, strings.TrimSpace(l))
		}
	}
	return strings.Join(kept, "; ")
}

// TestScenario_FollowsRulesOfNodes covers the times of missed heartbeats and their effects.
func TestScenario_FollowsRulesOfNodes(t *testing.T) {
	const three = "nodes: [{metadata: {name: a}, count: 3}]\nuntil: 20m\nevents: "
	for _, c := range []struct{ name, file, word, want string }{
		{"renewals follow the events of their instant",
			three + "[{at: 60s, stop: [a-0]}]", "Ready", "90s a-0 Ready condition"},
		{"live reads of leases that agree",
			"config: {nodeMonitorGracePeriod: 40s, liveLeaseReads: true}\n" + three + "[{at: 60s, stop: [a-0]}]", "Ready", "90s a-0 Ready condition"},
		{"late registration",
			three + "[{at: 63s, addNode: {metadata: {name: b}}}, {at: 75s, stop: [b]}]", "Ready", "113s b Ready condition"},
		{"periods restart on resume",
			three + "[{at: 15s, stop: [a-0]}, {at: 17s, resume: [a-0]}, {at: 39s, stop: [a-0]}]", "Ready", "77s a-0 Ready condition"},
		{"heartbeat by status every five minutes",
			three + "[{at: 65s, stopLease: [a-0]}, {at: 590s, stopStatus: [a-0]}]", "Ready",
			"100s a-0 Ready condition; 340s a-0 Ready condition"},
		{"missing status with a renewed lease",
			three + "[{at: 65s, stopStatus: [a-0]}]", "a-0", ""},
		{"heartbeat by a node's own report",
			three + "[{at: 65s, stopLease: [a-0]}, {at: 90s, condition: {nodes: [a-0], type: PIDPressure, status: \"False\"}}]", "Ready", "130s a-0 Ready condition; 340s a-0 Ready condition; 640s a-0 Ready condition; 940s a-0 Ready condition"},
		{"no heartbeat by the report of another component",
			three + "[{at: 65s, stop: [a-0]}, {at: 90s, condition: {nodes: [a-0], type: NetworkUnavailable, status: \"True\"}}]", "Ready", "100s a-0 Ready condition"},
		{"single Ready report of a stopped node",
			three + "[{at: 65s, stop: [a-0]}, {at: 90s, ready: {nodes: [a-0], status: \"True\"}}]", "Ready", "130s a-0 Ready condition"},
		{"Ready after resume, with unchanged pressure",
			three + "[{at: 30s, ready: {nodes: [a-0], status: \"False\"}}, {at: 30s, condition: {nodes: [a-0], type: DiskPressure, status: \"True\"}}, {at: 65s, stop: [a-0]}, {at: 85s, resume: [a-0]}]", "NoSchedule",
			"30s a-0 add disk-pressure NoSchedule taint; 30s a-0 add not-ready NoSchedule taint; 85s a-0 remove not-ready NoSchedule taint"},
		{"stop at registration",
			three + "[{at: 60s, addNode: {metadata: {name: b}}}, {at: 60s, stop: [b]}]", "NoExecute", "120s b add unreachable NoExecute taint"},
		{"stop and resume in one instant",
			three + "[{at: 60s, stop: [a-0]}, {at: 60s, resume: [a-0]}]", "a-0", ""},
		{"condition of the file from the start",
			"nodes: [{metadata: {name: a}, status: {conditions: [{type: MemoryPressure, status: \"True\"}]}}]\nuntil: 1m", "a", "0s a add memory-pressure NoSchedule taint"},
		{"condition without an effect",
			three + "[{at: 30s, condition: {nodes: [a-0], type: KernelDeadlock, status: \"True\"}}]", "a-0", ""},
		{"taint at registration",
			"nodes: [{metadata: {name: a}, spec: {taints: [{key: k, effect: NoExecute, timeAdded: 2020-01-01T00:00:00Z}]}}]\npods: [{metadata: {name: p}, spec: {nodeName: a, tolerations: [{key: k, operator: Exists, tolerationSeconds: 30}]}}]\nuntil: 1m", "evict", "30s a p evict"},
		{"untaint without an effect",
			"nodes: [{metadata: {name: a}, spec: {taints: [{key: k, effect: NoExecute}, {key: k, effect: NoSchedule}]}}]\nevents: [{at: 1s, untaint: {nodes: [a], key: k}}, {at: 2s, addPod: {metadata: {name: p}, spec: {nodeName: a}}}]\nuntil: 1m", "a", ""},
		{"replaced taint",
			three + "[{at: 10s, taint: {nodes: [a-0], key: k, effect: NoExecute}}, {at: 30s, taint: {nodes: [a-0], key: k, value: v, effect: NoExecute}}]\npods: [{metadata: {name: p}, spec: {nodeName: a-0, tolerations: [{key: k, operator: Exists, tolerationSeconds: 60}]}}]", "evict", "90s a-0 p evict"},
		{"events before and at the end",
			"nodes: [{metadata: {name: a}}]\nuntil: 1m\nevents: [{at: 59.999s, cordon: [a]}, {at: 60s, uncordon: [a]}]", "a", "59.999s a add unschedulable NoSchedule taint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := only(brief(t, c.file), c.word); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestScenario_FollowsRulesOfPods covers creation, deletion and readiness of pods.
func TestScenario_FollowsRulesOfPods(t *testing.T) {
	const three = "nodes: [{metadata: {name: a}, count: 3}]\nuntil: 20m\nevents: "
	const bare = "\npods: [{metadata: {name: p}, spec: {nodeName: a-0}}]"
	const patient = "\npods: [{metadata: {name: p}, spec: {nodeName: a-0, tolerations: [{operator: Exists, tolerationSeconds: 60}]}}]"
	for _, c := range []struct{ name, file, word, want string }{
		{"pod ready again with its node",
			three + "[{at: 30s, stop: [a-0]}, {at: 80s, resume: [a-0]}, {at: 100s, stop: [a-0]}]" + patient,
			"pod-not-ready", "60s a-0 p pod-not-ready; 130s a-0 p pod-not-ready"},
		{"pod not ready by the file",
			three + "[{at: 30s, stop: [a-0]}]\npods:\n- {metadata: {name: p}, spec: {nodeName: a-0, tolerations: [{operator: Exists}]}, status: {conditions: [{type: Ready, status: \"False\"}]}}\n- {metadata: {name: q}, spec: {nodeName: a-0, tolerations: [{operator: Exists}]}, status: {phase: Pending}}",
			"pod-not-ready", ""},
		{"pod bound to a stopped node",
			three + "[{at: 65s, stop: [a-0]}, {at: 200s, addPod: {metadata: {name: p}, spec: {nodeName: a-0, tolerations: [{operator: Exists, tolerationSeconds: 60}]}}}]",
			"a-0 p", "200s a-0 p pod-not-ready; 260s a-0 p evict"},
		{"finished and deleted pods",
			three + "[{at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}]\npods:\n- {metadata: {name: p}, spec: {nodeName: a-0}, status: {phase: Failed}}\n- {metadata: {name: q, deletionTimestamp: 2020-01-01T00:00:00Z}, spec: {nodeName: a-0}}",
			"evict", ""},
		{"evicted pod after its TTL",
			"config: {evictedPodTTL: 5m}\n" + three + "[{at: 30s, restart: true}]\npods:\n- {metadata: {name: p}, spec: {nodeName: a-0}, status: {phase: Failed, reason: Evicted, conditions: [{type: plimsoll.dev/Evicted, status: \"True\", lastTransitionTime: 2020-01-01T00:00:00Z}]}}\n- {metadata: {name: p2}, count: 2, spec: {nodeName: a-0}, status: {phase: Succeeded, conditions: [{type: plimsoll.dev/Evicted, status: \"True\"}]}}",
			" p", "300s a-0 p clear-pod"},
		{"evicted pod without a TTL",
			three + "[]\npods: [{metadata: {name: p}, spec: {nodeName: a-0}, status: {phase: Failed, reason: Evicted, conditions: [{type: plimsoll.dev/Evicted, status: \"True\"}]}}]",
			" p ", ""},
		{"new pod with the name of an evicted one",
			three + "[{at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}, {at: 31s, deletePod: [default/p]}, {at: 31s, updatePod: {metadata: {name: p}}}, {at: 40s, addPod: {metadata: {name: p}, spec: {nodeName: a-0}}}]" + bare,
			"evict", "30s a-0 p evict; 40s a-0 p evict"},
		{"pod deleted before its deadline", three + "[{at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}, {at: 31s, deletePod: [default/p]}]" + patient, "p", ""},
		{"unbound pod", three + "[{at: 65s, stop: [a-0]}]\npods: [{metadata: {name: p}}]", " p ", ""},
		{"toleration with an unknown operator",
			three + "[{at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}]\npods: [{metadata: {name: p}, spec: {nodeName: a-0, tolerations: [{key: k, operator: Exist, tolerationSeconds: 60}]}}]",
			"evict", "90s a-0 p evict"},
		{"pods of a count on one node",
			three + "[{at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}]\npods: [{metadata: {name: p, namespace: web, uid: u}, count: 2, spec: {nodeName: a-0}}]",
			"evict", "30s a-0 web/p-0 evict; 30s a-0 web/p-1 evict"},
		{"pods of a deleted and replaced node",
			three + "[{at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}, {at: 40s, deleteNode: [a-0]}, {at: 45s, deletePod: [default/q]}, {at: 50s, addNode: {metadata: {name: a-0}}}, {at: 60s, ready: {nodes: [a-0], status: \"False\"}}]" + "\npods: [{metadata: {name: p}, spec: {nodeName: a-0, tolerations: [{operator: Exists, tolerationSeconds: 60}]}}, {metadata: {name: q}, spec: {nodeName: a-0, tolerations: [{operator: Exists}]}}]",
			"a-0 p", "40s a-0 p cancel; 120s a-0 p evict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := only(brief(t, c.file), c.word); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestWriteJSON_FollowsFormatContract covers the order and the keys of lines.
func TestWriteJSON_FollowsFormatContract(t *testing.T) {
	t.Run("the order at one time", func(t *testing.T) {
		got := brief(t, `
nodes:
- {metadata: {name: b, labels: {kubernetes.io/os: linux}}}
- {metadata: {name: a, labels: {topology.kubernetes.io/zone: z}}}
pods:
- {metadata: {name: p, namespace: w}, spec: {nodeName: b}}
- {metadata: {name: p, namespace: v}, spec: {nodeName: b}}
events:
- {at: 0s, condition: {nodes: [b], type: DiskPressure, status: "True"}}
- {at: 0s, ready: {nodes: [b], status: "False"}}
until: 1s
`)
		want := `0s  FullDisruption 0.1 zone
0s b add disk-pressure NoSchedule taint
0s b add not-ready NoExecute taint
0s b add not-ready NoSchedule taint
0s b beta.kubernetes.io/os linux label
0s b v/p evict
0s b w/p evict
`
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
	t.Run("times in seconds, sorted lines", func(t *testing.T) {
		got := only(brief(t, "nodes: [{metadata: {name: a}, count: 2}]\nuntil: 2h\nevents: [{at: 1.0014s, cordon: [a-1]}, {at: 1001600us, cordon: [a-0]}, {at: 1h0m0.5s, uncordon: [a-0]}]"), "unschedulable")
		if want := "1.001s a-0 add unschedulable NoSchedule taint; 1.001s a-1 add unschedulable NoSchedule taint; 3600.5s a-0 remove unschedulable NoSchedule taint"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
	t.Run("no key but those of its kind, in their order", func(t *testing.T) {
		lines, _ := output(t, read(t, head+`
nodes: [{metadata: {name: a, labels: {kubernetes.io/os: ""}}}]
pods: [{metadata: {name: p}, spec: {nodeName: a, tolerations: [{operator: Exists, tolerationSeconds: 30}]}}]
events: [{at: 0s, taint: {nodes: [a], key: k, effect: NoExecute}}, {at: 5s, untaint: {nodes: [a], key: k}}, {at: 10s, taint: {nodes: [a], key: k, effect: NoExecute}}, {at: 65s, stop: [a]}]
until: 2m
`))
		want := `{"at":"0s","do":"label","node":"a","key":"beta.kubernetes.io/os","value":""}
{"at":"5s","do":"cancel","node":"a","pod":"default/p"}
{"at":"40s","do":"evict","node":"a","pod":"default/p","why":"taint"}
{"at":"110s","do":"zone","zone":"","state":"FullDisruption","rate":0}
{"at":"110s","do":"condition","node":"a","type":"DiskPressure","status":"Unknown","reason":"NodeStatusUnknown"}
{"at":"110s","do":"condition","node":"a","type":"MemoryPressure","status":"Unknown","reason":"NodeStatusUnknown"}
{"at":"110s","do":"condition","node":"a","type":"PIDPressure","status":"Unknown","reason":"NodeStatusUnknown"}
{"at":"110s","do":"condition","node":"a","type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}
{"at":"110s","do":"taint","node":"a","op":"add","key":"node.kubernetes.io/unreachable","effect":"NoSchedule"}
`
		if lines != want {
			t.Errorf("%s\nwant\n%s", lines, want)
		}
	})
	t.Run("no repeated zones after a failover", func(t *testing.T) {
		got := only(brief(t, "nodes: [{metadata: {name: a}}, {metadata: {name: b, labels: {topology.kubernetes.io/zone: z}}}]\nuntil: 10m\nevents: [{at: 65s, stop: [a]}, {at: 120s, restart: true}, {at: 200s, resume: [a]}, {at: 200s, restart: true}]"), "zone")
		if want := "100s  FullDisruption 0.1 zone; 200s  Normal 0.1 zone"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
	t.Run("empty scenario", func(t *testing.T) {
		lines, text := output(t, read(t, head+"nodes: []\nuntil: 90s"))
		if lines != "" || !strings.Contains(text, "0 nodes, 0 pods") || !strings.HasSuffix(text, "nothing happens until 90s\n") {
			t.Errorf("%q, %q", lines, text)
		}
	})
}
