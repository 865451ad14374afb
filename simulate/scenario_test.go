package simulate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/simulate"
)

const head = "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeScenario\n"

// steps runs a scenario and returns its decoded lines.
func steps(t *testing.T, text string) []simulate.Line {
	t.Helper()
	out, _ := run(t, []byte(head+text))
	var lines []simulate.Line
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var l simulate.Line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestScenario_ReportsFaults covers invalid scenarios: a fault has its path and value.
func TestScenario_ReportsFaults(t *testing.T) {
	for text, want := range map[string]string{
		"steps: [{at: 0s}]\nspeling: 1":                                          `speling: 1: unknown field`,
		"pods: []":                                                               `steps: required, but left out`,
		"steps: [{check: early}]":                                                `steps[0].at: required, but left out`,
		"steps: [{at: 5}]":                                                       `steps[0].at: 5: must be a duration`,
		"steps: [{at: -5s}]":                                                     `steps[0].at: "-5s": must not be negative`,
		"steps: [{at: 5s}, {at: 5s}]":                                            `steps[1].at: "5s": must be later than the step before it`,
		"steps: [{at: 5s}, {at: 4s}]":                                            `steps[1].at: "4s": must be later`,
		"steps: [{at: 0s, check: sharp}]":                                        `steps[0].check: "sharp": must be periodic or early`,
		"steps: [{at: 0s, node: {moon.available: {}}}]":                          `steps[0].node[moon.available]: {}: unsupported eviction signal`,
		"steps: [{at: 0s, node: {pid.available: {capacity: 1}}}]":                `steps[0].node[pid.available].available: required`,
		"steps: [{at: 0s, node: {pid.available: {available: 1}}}]":               `steps[0].node[pid.available].capacity: required`,
		"steps: [{at: 0s, node: {pid.available: {available: x}}}]":               `steps[0].node[pid.available].available: "x": must be a quantity`,
		"steps: [{at: 0s, node: {pid.available: {available: -1, capacity: 1}}}]": `steps[0].node[pid.available].available: -1: must not be negative`,
		"steps: [{at: 0s, node: {pid.available: {available: 1, capacity: 1, time: now}}}]":                                `steps[0].node[pid.available].time: "now": must be a duration`,
		"steps: [{at: 0s, afterReclaim: {nodefs.available: {available: 1, capacity: 1, time: 0s}}}]":                      `steps[0].afterReclaim[nodefs.available].time: "0s": unknown field`,
		"steps: [{at: 0s, usage: {default/ghost: {}}}]":                                                                   `steps[0].usage[default/ghost]: default/ghost: no pod of this file ever has`,
		"steps: [{at: 0s, remove: [ghost]}]":                                                                              `steps[0].remove[0]: ghost: no pod of this file ever has`,
		"steps: [{at: 0s, restart: often}]":                                                                               `steps[0].restart: "often": must be true or false`,
		"steps: [{at: 0s, killError: [1]}]":                                                                               `steps[0].killError: [1]: must be a string`,
		"steps: [{at: 0s, add: [{metadata: {name: 7}}]}]":                                                                 `steps[0].add[0].metadata.name: 7: `,
		"pods: [{spec: {}}]\nsteps: []":                                                                                   `pods[0].metadata.name: required, but left out`,
		"pods: [{metadata: {name: a}}, {metadata: {name: a}}]\nsteps: []":                                                 `pods[1].metadata.name: default/a: is already`,
		"pods: [{metadata: {name: a, uid: u}}, {metadata: {name: b, uid: u}}]\nsteps: []":                                 `pods[1].metadata.uid: u: is already`,
		"pods: [{metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {memory: 1GB}}}]}}]\nsteps: []": `pods[0].spec.containers[0].resources.requests.memory: "1GB": `,
		"filesystems: raid\nsteps: []":                                                                                    `filesystems: "raid": must be single, dedicated or split`,
		"keepEvicted: 1\nsteps: []":                                                                                       `keepEvicted: 1: must be true or false`,
		"config: {evictionHard: {memory.available: 0}}\nsteps: []":                                                        `config.evictionHard[memory.available]: 0: must be positive`,
		"config: {evictionSoft: {memory.available: 1Gi}}\nsteps: []":                                                      `config.evictionSoft[memory.available]: 1Gi: grace period must be specified`,
		"config: {evictionhard: {}}\nsteps: []":                                                                           `config.evictionhard: {}: unknown field`,
		"config: {evictionChoice: largest}\nsteps: []":                                                                    `config.evictionChoice: "largest": unknown choice`,
		"config: {evictionChoice: true}\nsteps: []":                                                                       `config.evictionChoice: true: must be a string`,
		"config: {monitoringPeriod: 10}\nsteps: []":                                                                       `config.monitoringPeriod: 10: must be a duration`,
		"config: [1]\nsteps: []":                                                                                          `config: [1]: must be a mapping`,
		"steps: {}":                                                                                                       `steps: {}: must be a list`,
		"steps: [7]":                                                                                                      `steps[0]: 7: must be a mapping`,
		"steps: []\nsteps: []":                                                                                            `already set in map`,
	} {
		_, faults := simulate.Parse([]byte(head + text))
		lines := strings.Split(faults.Error(), "\n")
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
			t.Errorf("%s\n\tfaults %q\n\twant   %s", text, lines, want)
		}
		if len(lines) > 2 {
			t.Errorf("%s\n\tone mistake, got %d faults: %q", text, len(lines), lines)
		}
	}
	for text, want := range map[string]string{
		"kind: NodeScenario\nsteps: []": "apiVersion: required", "apiVersion: v1\nkind: NodeScenario\nsteps: []": `apiVersion: "v1": must be plimsoll.dev/v1alpha1`,
		"apiVersion: plimsoll.dev/v1alpha1\nkind: Pod": `kind: "Pod": must be NodeScenario or ClusterScenario`, "": "required", "[]": "must be a mapping", "\x00": "not valid YAML",
	} {
		if _, faults := simulate.Parse([]byte(text)); faults.Err() == nil || !strings.Contains(faults.Error(), want) {
			t.Errorf("%q: %v, want %s", text, faults, want)
		}
	}
}

func TestScenario_ReportsAllFaultsAtOnce(t *testing.T) {
	_, faults := simulate.Parse([]byte(head + `
config: {evictionHard: {memory.available: 200%}, evictionMaxPodGracePeriod: x}
filesystems: none
pods: [{metadata: {name: a, labels: 7}}, {metadata: {name: b}, spec: {priorty: 1}}]
steps:
- {at: x, usage: {default/a: {memory: much}, default/b: {processes: -1}}}
- {at: 1s, remove: [default/b, default/c]}
`))
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	want := []string{"filesystems", "config.evictionMaxPodGracePeriod", "config.evictionHard[memory.available]", "pods[0].metadata.labels", "pods[1].spec.priorty",
		"steps[0].at", "steps[0].usage[default/a].memory", "steps[0].usage[default/b].processes", "steps[1].remove[1]"}
	if !slices.Equal(paths, want) {
		t.Errorf("faults at %q\nwant %q\n%s", paths, want, faults)
	}
}

// Parts of the format tests.
const twoPods = "pods: [{metadata: {name: a}, spec: {containers: [{name: c}]}}, {metadata: {name: b, namespace: prod, uid: AA}, spec: {containers: [{name: c}]}}]\n"
const low = "node: {memory.available: {available: 1Mi, capacity: 4Gi}}"
const hard = "config: {evictionHard: {memory.available: 100Mi}, enforceNodeAllocatable: []}\n"

// TestNodeScenario_FollowsFormatContract covers corner cases, each from a sentence of the contract.
func TestNodeScenario_FollowsFormatContract(t *testing.T) {
	t.Run("times in seconds, to the millisecond", func(t *testing.T) {
		var got []string
		for _, l := range steps(t, "config: {evictionHard: {}}\nsteps: [{at: 0s}, {at: 500us}, {at: 1ms}, {at: 1m30s}, {at: 402.5s}, {at: 1h}, {at: 100000h}]") {
			got = append(got, l.At)
		}
		if want := []string{"0s", "0s", "0.001s", "90s", "402.5s", "3600s", "360000000s"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
	t.Run("omitted and empty keys of config", func(t *testing.T) {
		if got := steps(t, "steps: [{at: 0s}]")[0].Unknown; !slices.Equal(got, []string{"memory.available", "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree"}) {
			t.Errorf("configured by default: %v", got)
		}
		if got := steps(t, "config: {evictionHard: {}}\nsteps: [{at: 0s}]")[0].Unknown; len(got) != 0 {
			t.Errorf("configured by an empty map: %v", got)
		}
	})
	t.Run("default UIDs that break ties", func(t *testing.T) {
		if got := steps(t, hard+twoPods+"steps: [{at: 0s, "+low+", usage: {default/a: {}, prod/b: {}}}]")[0].Ranking; !slices.Equal(got, []string{"prod/b", "default/a"}) {
			t.Errorf("got ranking %v, want AA before default/a", got)
		}
	})
	t.Run("no values of the previous step", func(t *testing.T) {
		lines := steps(t, hard+twoPods+"steps: [{at: 0s, "+low+", usage: {default/a: {memory: 5}, prod/b: {memory: 6}}}, {at: 10s}, {at: 20s, "+low+"}]")
		if lines[0].Evicted.Pod != "prod/b" || !slices.Equal(lines[1].Unknown, []string{"memory.available"}) || len(lines[2].Evicted.Annotations) != 0 {
			t.Errorf("%+v", lines)
		}
	})
}

func TestNodeScenario_FollowsRulesOfSteps(t *testing.T) {
	t.Run("signal without pods", func(t *testing.T) {
		l := steps(t, hard+"steps: [{at: 0s, "+low+"}]")[0]
		if l.Signal != "memory.available" || l.Evicted != nil || l.Ranking == nil || l.Failed == nil || l.Reclaimed == nil || l.Conditions == nil {
			t.Errorf("%+v", l)
		}
	})
	t.Run("containerfs equal to nodefs by default", func(t *testing.T) {
		const nodefs = "config: {evictionHard: {nodefs.available: 10}, enforceNodeAllocatable: []}\n" + twoPods + "steps: [{at: 0s, node: {nodefs.available: {available: 9, capacity: 90}%s}, afterReclaim: {nodefs.available: {available: 10, capacity: 90}}}]"
		l := steps(t, strings.Replace(nodefs, "%s", "", 1))[0]
		if !slices.Equal(l.Met, []string{"nodefs.available", "containerfs.available"}) || len(l.Ranking) != 0 {
			t.Errorf("%+v", l)
		}
		l = steps(t, strings.Replace(nodefs, "%s", ", containerfs.available: {available: 9, capacity: 90}", 1))[0]
		if l.Evicted == nil || l.Signal != "nodefs.available" {
			t.Errorf("containerfs did not use its own observation: %+v", l)
		}
	})
	t.Run("eviction for a limit", func(t *testing.T) {
		const file = "config: {evictionHard: {memory.available: 100Mi}, enforceNodeAllocatable: []}\npods: [{metadata: {name: a}, spec: {volumes: [{name: v, emptyDir: {sizeLimit: 1}}]}}]\n"
		const usage = "usage: {default/a: {volumes: {v: {bytes: 2}}}}"
		l := steps(t, file+"steps: [{at: 0s, "+low+", "+usage+"}]")[0]
		if l.Evicted == nil || l.Evicted.Signal != "emptydirfs.limit" || l.Signal != "" || !slices.Equal(l.Met, []string{"memory.available"}) {
			t.Errorf("%+v", l)
		}
		l = steps(t, file+"steps: [{at: 0s, "+low+", "+usage+", killError: stuck}]")[0]
		if l.Signal != "memory.available" || len(l.Failed) != 1 || l.Failed[0].Error != "stuck" {
			t.Errorf("a pod was tried twice in a step: %+v", l)
		}
	})
	t.Run("added and removed pods", func(t *testing.T) {
		lines := steps(t, hard+twoPods+"steps: [{at: 0s, "+low+", remove: [prod/b]}, {at: 10s, "+low+", add: [{metadata: {name: a}}, {metadata: {name: c}}], usage: {default/a: {memory: 2}, default/c: {memory: 1}}}]")
		if !slices.Equal(lines[0].Ranking, []string{"default/a"}) || !slices.Equal(lines[1].Ranking, []string{"default/a", "default/c"}) {
			t.Errorf("%v, then %v", lines[0].Ranking, lines[1].Ranking)
		}
	})
	t.Run("no rate of memory after a restart", func(t *testing.T) {
		const fall = "steps: [{at: 0s, node: {memory.available: {available: 1Gi, capacity: 4Gi}}}, {at: 1s, check: early, %snode: {memory.available: {available: 1Mi, capacity: 4Gi}}}]"
		if l := steps(t, hard+strings.Replace(fall, "%s", "", 1))[1]; l.Signal != "memory.available" {
			t.Errorf("no eviction although exhaustion is imminent: %+v", l)
		}
		if l := steps(t, hard+strings.Replace(fall, "%s", "restart: true, ", 1))[1]; l.Signal != "" {
			t.Errorf("eviction without a previous step: %+v", l)
		}
	})
	t.Run("JSON file", func(t *testing.T) {
		out, _ := run(t, []byte(`{"apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeScenario", "config": {"evictionHard": {}}, "steps": [{"at": "1s"}]}`))
		if want := `{"at":"1s","conditions":[],"met":[],"unknown":[],"reclaimed":[],"signal":"","ranking":[],"evicted":null,"failed":[]}` + "\n"; out != want {
			t.Errorf("%s", out)
		}
	})
}

// TestNodeScenario_FollowsEvictionChoice covers what the reference model of the choice does not.
func TestNodeScenario_FollowsEvictionChoice(t *testing.T) {
	t.Run("evictionChoice, the kubelet's where it is absent", func(t *testing.T) {
		const file = "config: {%sevictionHard: {memory.available: 100Mi}, enforceNodeAllocatable: []}\n" + twoPods + "steps: [{at: 0s, " + low + ", usage: {default/a: {memory: 50Mi}, prod/b: {memory: 4Mi}}}, {at: 10s, " + low + "}]"
		for choice, want := range map[string]string{"": "default/x", "evictionChoice: kubelet, ": "default/x", "evictionChoice: helps, ": "default/a"} {
			lines := steps(t, strings.Replace(strings.Replace(file, "%s", choice, 1), "pods: [", "pods: [{metadata: {name: x}}, ", 1))
			if l := lines[0]; l.Evicted == nil || l.Evicted.Pod != want || !slices.Equal(l.Ranking, []string{"default/x", "default/a", "prod/b"}) {
				t.Errorf("%q: evicted %+v of %v, want %s", choice, l.Evicted, l.Ranking, want)
			}
			if l := lines[1]; (l.Evicted == nil) != (want == "default/a") || l.Signal != "memory.available" || len(l.Ranking) != 2 {
				t.Errorf("%q, no pod measured: %+v", choice, l)
			}
		}
	})
	// Another threshold is still met, so that reclaim does not end the step. Of the threshold acted for nothing is missing.
	t.Run("every pod helps where nothing is missing", func(t *testing.T) {
		l := steps(t, "config: {evictionChoice: helps, evictionHard: {nodefs.available: 10Gi, imagefs.available: 20Gi}}\n"+twoPods+
			"steps: [{at: 0s, node: {nodefs.available: {available: 9Gi, capacity: 90Gi}, imagefs.available: {available: 9Gi, capacity: 90Gi}}, afterReclaim: {nodefs.available: {available: 15Gi, capacity: 90Gi}, imagefs.available: {available: 15Gi, capacity: 90Gi}}}]")[0]
		if l.Signal != "nodefs.available" || l.Evicted == nil || l.Evicted.Pod != l.Ranking[0] {
			t.Errorf("%+v", l)
		}
	})
}

var lineKeys = []string{"at", "conditions", "met", "unknown", "reclaimed", "signal", "ranking", "evicted", "failed"}
var evictedKeys = []string{"pod", "signal", "gracePeriodSeconds", "reason", "message", "disruptionTarget", "annotations"}

// keysOf lists the keys of a JSON object in their order.
func keysOf(t *testing.T, object []byte) (keys []string, values map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(object, &values); err != nil {
		t.Fatalf("%q: %v", object, err)
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			t.Fatal(err)
		}
	}
	return keys, values
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(scenarios, "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(head + "steps: [{at: 0s, check: early, restart: true}]"))
	f.Add([]byte(head + "config: {earlyEviction: immediate, earlyEvictionHorizon: 0s}\nfilesystems: split\nsteps: [{at: 1ns, node: {pid.available: {available: 9E, capacity: 9E}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, faults := simulate.Parse(data)
		if faults.Err() != nil {
			for _, l := range faults {
				if strings.ContainsAny(l.Error(), "\n\r") {
					t.Errorf("fault with more than one line: %q", l)
				}
			}
			return
		}
		var out, again, text, textAgain bytes.Buffer
		for w, write := range map[*bytes.Buffer]func(*bytes.Buffer) error{
			&out: func(b *bytes.Buffer) error { return s.WriteJSON(b) }, &again: func(b *bytes.Buffer) error { return s.WriteJSON(b) },
			&text: func(b *bytes.Buffer) error { return s.WriteText(b) }, &textAgain: func(b *bytes.Buffer) error { return s.WriteText(b) },
		} {
			if err := write(w); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(out.Bytes(), again.Bytes()) || !bytes.Equal(text.Bytes(), textAgain.Bytes()) {
			t.Error("two runs of one scenario differ")
		}
		n := bytes.Count(out.Bytes(), []byte("\n"))
		if node, is := s.(*simulate.NodeScenario); is && n != len(node.Steps) {
			t.Errorf("%d lines for %d steps", n, len(node.Steps))
		}
		for l := range bytes.Lines(out.Bytes()) {
			keys, values := keysOf(t, l)
			if !slices.Equal(keys, lineKeys) {
				t.Errorf("keys %v", keys)
			}
			if evicted := values["evicted"]; string(evicted) != "null" {
				if keys, _ := keysOf(t, evicted); !slices.Equal(keys, evictedKeys) {
					t.Errorf("keys of evicted %v", keys)
				}
			}
			for key, v := range values {
				if key != "evicted" && string(v) == "null" {
					t.Errorf("%s is null", key)
				}
			}
		}
	})
}
