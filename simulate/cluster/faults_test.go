package cluster_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

const twoNodes = "nodes: [{metadata: {name: a}, count: 2}]\n"

// Invalid scenarios with a fault of each, with path and value.
var faultyObjects = map[string]string{
	"until: 1m":                                      `nodes: required, but left out`,
	"nodes: []":                                      `until: required, but left out`,
	"nodes: []\nuntil: 0s":                           `until: "0s": must be positive`,
	"nodes: []\nuntil: -5s":                          `until: "-5s": must be positive`,
	"nodes: []\nuntil: 5":                            `until: 5: must be a duration`,
	"nodes: []\nuntil: 1m\nspeling: 1":               `speling: 1: unknown field`,
	"nodes: []\nuntil: 1m\nconfig: {grace: 1}":       `config.grace: 1: unknown field`,
	"nodes: {}\nuntil: 1m":                           `nodes: {}: must be a list`,
	"nodes: [{}]\nuntil: 1m":                         `nodes[0].metadata.name: required, but left out`,
	"nodes: [7]\nuntil: 1m":                          `nodes[0]: 7: must be a mapping`,
	"nodes: [{metadata: {name: a/b}}]\nuntil: 1m":    `nodes[0].metadata.name: a/b: must be letters, digits, - and .`,
	"nodes: [{metadata: {nam: a}}]\nuntil: 1m":       `nodes[0].metadata.nam: "a": `,
	"nodes: [{metadata: {name: a}, count: x}]":       `nodes[0].count: "x": `,
	"nodes: [{metadata: {name: a}, count: 0}]":       `nodes[0].count: 0: must be at least 1`,
	"nodes: [{metadata: {name: a}, count: -3}]":      `nodes[0].count: -3: must be at least 1`,
	"nodes: [{metadata: {name: a}, count: 1000001}]": `nodes[0].count: 1000001: makes more than 1000000`,
	"nodes: [{kind: Pod, metadata: {name: a}}]":      `nodes[0].kind: Pod: must be Node`,
	twoNodes + "pods: [{kind: Node}]\nuntil: 1m":     `pods[0].kind: Node: must be Pod`,
	"nodes: [{metadata: {name: a}, spec: {taints: [{key: k, effect: NoExec}]}}]":                   `nodes[0].spec.taints[0].effect: NoExec: must be one of NoSchedule, PreferNoSchedule, NoExecute`,
	"nodes: [{metadata: {name: a}, spec: {taints: [{effect: NoExecute}]}}]":                        `nodes[0].spec.taints[0].key: required, but left out`,
	"nodes: [{metadata: {name: a}, status: {conditions: [{type: Ready, status: Maybe}]}}]":         `nodes[0].status.conditions[0].status: Maybe: must be one of True, False, Unknown`,
	"nodes: [{metadata: {name: a}, status: {conditions: [{type: Ready, status: True}]}}]":          `nodes[0].status.conditions[0].status: true: `,
	"nodes: [{metadata: {name: a}}, {metadata: {name: a}}]":                                        `nodes[1].metadata.name: a: is already the name of a node`,
	"nodes: [{metadata: {name: a-1}}, {metadata: {name: a}, count: 2}]":                            `nodes[1].metadata.name: a-1: is already the name of a node`,
	twoNodes + "pods: [{metadata: {name: p}, spec: {nodeName: a}}]":                                `pods[0].spec.nodeName: a: no node of this file ever has this name`,
	twoNodes + "pods: [{spec: {nodeName: a-0}}]":                                                   `pods[0].metadata.name: required`,
	twoNodes + "pods: [{metadata: {name: p}}, {metadata: {name: p, namespace: default}}]":          `pods[1].metadata.name: default/p: is already the name of a pod`,
	twoNodes + "pods: [{metadata: {name: p}, status: {phase: Ready}}]":                             `pods[0].status.phase: Ready: must be one of Pending, `,
	twoNodes + "pods: [{metadata: {name: p}, status: {conditions: [{type: Ready, status: yes}]}}]": `pods[0].status.conditions[0].status: true: `,
	twoNodes + "pods: [{metadata: {name: p}, spec: {tolerations: [{tolerationSeconds: 1.5}]}}]":    `pods[0].spec.tolerations[0].tolerationSeconds: 1.5: `,
	twoNodes + "config: {nodeEvictionRate: -1}":                                                    `config.nodeEvictionRate: -1: must be`,
	twoNodes + "config: {nodeEvictionRate: Inf}":                                                   `config.nodeEvictionRate: "Inf": must be`,
	twoNodes + "config: {secondaryNodeEvictionRate: fast}":                                         `config.secondaryNodeEvictionRate: "fast": must be`,
	twoNodes + "config: {unhealthyZoneThreshold: -1.5}":                                            `config.unhealthyZoneThreshold: -1.5: must be`,
	twoNodes + "config: {nodeMonitorGracePeriod: -40s}":                                            `config.nodeMonitorGracePeriod: "-40s": must be`,
	twoNodes + "config: {enableTaintManager: maybe}":                                               `config.enableTaintManager: "maybe": must be true or false`,
	twoNodes + "config: {leaderElect: false}":                                                      `config.leaderElect: false: unknown field`,
}

var faultyEvents = map[string]string{
	twoNodes + "events: [{stop: [a-0]}]":                                                   `events[0].at: required, but left out`,
	twoNodes + "events: [{at: -1s, stop: [a-0]}]":                                          `events[0].at: "-1s": must not be negative`,
	twoNodes + "events: [{at: 2s, stop: [a-0]}, {at: 1s, stop: [a-1]}]":                    `events[1].at: "1s": must not be earlier than the event before it, which is at 2s`,
	twoNodes + "events: [{at: 1s, stopp: [a-0]}]":                                          `events[0].stopp: ["a-0"]: unknown field`,
	twoNodes + "events: [{at: 1s}]":                                                        `events[0]: {"at":"1s"}: nothing happens: give it one of deleteNode, `,
	twoNodes + "events: [{at: 1s, stop: a-0}]":                                             `events[0].stop: "a-0": must be a list`,
	twoNodes + "events: [{at: 1s, stop: [a]}]":                                             `events[0].stop[0]: "a": no node of this file ever has this name`,
	twoNodes + "events: [{at: 1s, stop: [\"\"]}]":                                          `events[0].stop[0]: "": must be the name of a node`,
	twoNodes + "events: [{at: 1s, deleteNode: [a-0]}, {at: 2s, cordon: [a-0]}]":            `events[1].cordon[0]: "a-0": no node has this name at this time`,
	twoNodes + "events: [{at: 1s, resume: [b]}, {at: 2s, addNode: {metadata: {name: b}}}]": `events[0].resume[0]: "b": no node has this name at this time`,
	twoNodes + "events: [{at: 1s, addNode: {metadata: {name: a-0}}}]":                      `events[0].addNode.metadata.name: a-0: is already the name of a node`,
	twoNodes + "events: [{at: 1s, deleteNode: [a-0, a-0]}]":                                `events[0].deleteNode[1]: "a-0": is named twice`,
	twoNodes + "events: [{at: 1s, addNode: [a]}]":                                          `events[0].addNode: ["a"]: must be a mapping`,
	twoNodes + "events: [{at: 1s, deletePod: [default/p]}]":                                `events[0].deletePod[0]: "default/p": no pod of this file has this namespace/name by then`,
	twoNodes + "events: [{at: 1s, updatePod: {metadata: {name: p}}}]":                      `events[0].updatePod.metadata.name: default/p: no pod of this file has this namespace/name by then`,
	twoNodes + "pods: [{metadata: {name: p}, spec: {nodeName: a-0}}]\nevents: [{at: 1s, updatePod: {metadata: {name: p}, spec: {nodeName: a-1}}}]": `events[0].updatePod.spec.nodeName: a-1: must stay "a-0"`,
	twoNodes + "events: [{at: 1s, ready: {nodes: [a-0]}}]":                                        `events[0].ready.status: required`,
	twoNodes + "events: [{at: 1s, ready: {nodes: [a-0], status: Maybe}}]":                         `events[0].ready.status: "Maybe": must be one of True, False, Unknown`,
	twoNodes + "events: [{at: 1s, ready: {nodes: [a-0], status: False}}]":                         `events[0].ready.status: false: must be a string`,
	twoNodes + "events: [{at: 1s, ready: {status: \"True\"}}]":                                    `events[0].ready.nodes: required`,
	twoNodes + "events: [{at: 1s, condition: {nodes: [a-0], status: \"True\"}}]":                  `events[0].condition.type: required`,
	twoNodes + "events: [{at: 1s, condition: {nodes: [a-0], type: Ready, status: \"true\"}}]":     `events[0].condition.status: "true": must be one of`,
	twoNodes + "events: [{at: 1s, taint: {nodes: [a-0], key: k}}]":                                `events[0].taint.effect: required`,
	twoNodes + "events: [{at: 1s, taint: {nodes: [a-0], effect: NoExecute}}]":                     `events[0].taint.key: required`,
	twoNodes + "events: [{at: 1s, taint: {nodes: [a-0], key: \"\", effect: NoExecute}}]":          `events[0].taint.key: "": must not be empty`,
	twoNodes + "events: [{at: 1s, taint: {nodes: [a-0], key: k, effect: noexecute}}]":             `events[0].taint.effect: "noexecute": must be one of`,
	twoNodes + "events: [{at: 1s, taint: {nodes: [a-0], key: k, effect: NoExecute, seconds: 1}}]": `events[0].taint.seconds: 1: unknown field`,
	twoNodes + "events: [{at: 1s, untaint: {nodes: [a-0], key: k, effect: Never}}]":               `events[0].untaint.effect: "Never": must be one of`,
	twoNodes + "events: [{at: 1s, label: {nodes: [a-0], value: v}}]":                              `events[0].label.key: required`,
	twoNodes + "events: [{at: 1s, restart: now}]":                                                 `events[0].restart: "now": must be true or false`,
}

func TestScenario_ReportsFaults(t *testing.T) {
	expectFaults(t, faultyObjects)
	expectFaults(t, faultyEvents)
}

func expectFaults(t *testing.T, faulty map[string]string) {
	t.Helper()
	for text, want := range faulty {
		if !strings.Contains(text, "until:") && !strings.HasPrefix(want, "until") {
			text += "\nuntil: 1m"
		}
		_, faults := parse(head + text)
		lines := strings.Split(faults.Error(), "\n")
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
			t.Errorf("%s\n\tfaults %q\n\twant   %s", text, lines, want)
		}
		if len(lines) > 2 {
			t.Errorf("%s\n\tone mistake, got %d faults: %q", text, len(lines), lines)
		}
	}
}

// Whether a pod exists is known only during the run: it may have been evicted. In this case
// nothing is printed either.
func TestAddPod_RefusedWhilePodExists(t *testing.T) {
	const file = head + twoNodes + "pods: [{metadata: {name: p}, spec: {nodeName: a-0}}]\nuntil: 10m\nevents:\n- {at: 1s, taint: {nodes: [a-1], key: k, effect: NoSchedule}}\n"
	const again = "addPod: {metadata: {name: p}, spec: {nodeName: a-0}}}\n"
	s := read(t, file+"- {at: 30s, condition: {nodes: [a-0], type: DiskPressure, status: \"True\"}}\n- {at: 60s, "+again)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json": func(b *bytes.Buffer) error { return s.WriteJSON(b) }, "text": func(b *bytes.Buffer) error { return s.WriteText(b) },
	} {
		var out bytes.Buffer
		err := write(&out)
		if !errors.As(err, new(strictyaml.Faults)) || err.Error() != "events[2].addPod: default/p: there is a pod of this name at this time" || out.Len() > 0 {
			t.Errorf("%s: %v, with %d bytes printed", name, err, out.Len())
		}
	}
	output(t, read(t, file+"- {at: 30s, deletePod: [default/p]}\n- {at: 60s, "+again))
	output(t, read(t, file+"- {at: 30s, taint: {nodes: [a-0], key: k, effect: NoExecute}}\n- {at: 60s, "+again))
}

func TestScenario_ReportsAllFaultsAtOnce(t *testing.T) {
	_, faults := parse(head + `
config: {nodeEvictionRate: -1}
nodes: [{metadata: {name: a}, count: 0}, {metadata: {name: b}}]
pods: [{metadata: {name: p}, spec: {nodeName: c}}]
events: [{at: 1s, stop: [d]}, {at: 0s, taint: {nodes: [b], key: k, effect: Never}}]
until: soon
`)
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	want := []string{"config.nodeEvictionRate", "nodes[0].count", "pods[0].spec.nodeName", "events[0].stop[0]", "events[1].at", "events[1].taint.effect", "until"}
	if !slices.Equal(paths, want) {
		t.Errorf("faults at %q\nwant      %q", paths, want)
	}
}
