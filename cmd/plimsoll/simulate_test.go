package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const example = "../../examples/scenarios/oom-between-checks.yaml"

// plimsoll runs the command as a user would.
func plimsoll(in string, args ...string) (status int, out, errs string) {
	return plimsollIn(context.Background(), in, args...)
}

// plimsollIn is plimsoll with a context.
func plimsollIn(ctx context.Context, in string, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = run(ctx, args, strings.NewReader(in), &o, &e)
	return status, o.String(), e.String()
}

func TestSimulate_Output(t *testing.T) {
	want, err := os.ReadFile(strings.TrimSuffix(example, ".yaml") + ".expected.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"simulate", "-o", "json", example}, {"simulate", example, "--output=json"}} {
		if status, out, errs := plimsoll("", args...); status != 0 || out != string(want) || errs != "" {
			t.Errorf("%v: status %d, %s%s", args, status, errs, out)
		}
	}
	status, out, errs := plimsoll("", "simulate", example)
	if status != 0 || errs != "" || !strings.Contains(out, "EVICT default/leak") {
		t.Errorf("text: status %d, %s%s", status, errs, out)
	}
}

func TestSimulate_ClusterScenario(t *testing.T) {
	const example = "../../examples/clusters/one-dead-node.yaml"
	status, out, errs := plimsoll("", "simulate", "-o", "json", example)
	if want := `{"at":"110s","do":"pod-not-ready","node":"a-0","pod":"default/batch"}` + "\n"; status != 0 || errs != "" || !strings.Contains(out, want) {
		t.Errorf("json: status %d, %s%s", status, errs, out)
	}
	status, out, errs = plimsoll("", "simulate", example)
	if status != 0 || errs != "" || !strings.Contains(out, "EVICT default/batch") {
		t.Errorf("text: status %d, %s%s", status, errs, out)
	}
}

func TestSimulate_Compare(t *testing.T) {
	const example = "../../examples/scenarios/helps-host-path-writer.yaml"
	want, err := os.ReadFile(strings.TrimSuffix(example, ".yaml") + ".compared.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the same bytes
		if status, out, errs := plimsoll("", "simulate", "--compare", "-o", "json", example); status != 0 || out != string(want) || errs != "" {
			t.Errorf("json: status %d, %s%s", status, errs, out)
		}
	}
	status, out, errs := plimsoll("", "simulate", example, "--compare")
	if status != 0 || errs != "" || !strings.Contains(out, "\n15 of 18 steps differ\n") {
		t.Errorf("text: status %d, %s%s", status, errs, out)
	}
}

// A ClusterScenario has no choice to compare.
func TestSimulate_CompareRefusesClusterScenario(t *testing.T) {
	const example = "../../examples/clusters/one-dead-node.yaml"
	for _, output := range []string{"text", "json"} {
		status, out, errs := plimsoll("", "simulate", "--compare", "-o", output, example)
		want := "--compare: " + example + " is a ClusterScenario, which has no evictionChoice: simulate it without --compare, or compare a NodeScenario\n"
		if status != exitInvalid || out != "" || errs != want {
			t.Errorf("%s: status %d, on standard output %q, on standard error\n%swant\n%s", output, status, out, errs, want)
		}
	}
}

func TestSimulate_StandardInput(t *testing.T) {
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := plimsoll("", "simulate", "-o", "json", example)
	if status, out, errs := plimsoll(string(data), "simulate", "-o", "json", "-"); status != 0 || out != want || errs != "" {
		t.Errorf("status %d, %s%s", status, errs, out)
	}
}

func TestSimulate_ExitStatus(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		about  string
		in     string
		args   []string
		status int
		lines  []string // beginnings, one for each line on standard error
	}{
		{"missing file", "", []string{filepath.Join(dir, "none.yaml")}, 1, []string{"read the scenario: open "}},
		{"directory", "", []string{dir}, 1, []string{"read the scenario: "}},
		{"faults, one per line", "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeScenario\nspeling: 1\npods: [{metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {memory: lots}}}]}}]\nsteps: [{at: x}, {at: 1s, remove: [ghost]}]",
			[]string{"-"}, 2, []string{"speling: 1: ", "pods[0].spec.containers[0].resources.requests.memory: \"lots\": ", "steps[0].at: \"x\": ", "steps[1].remove[0]: ghost: "}},
		{"faults of a cluster, one per line", "apiVersion: plimsoll.dev/v1alpha1\nkind: ClusterScenario\nnodes: [{metadata: {name: a}}]\nevents: [{at: 1s, stop: [b]}]\nuntil: x",
			[]string{"-"}, 2, []string{"events[0].stop[0]: \"b\": ", "until: \"x\": "}},
		{"fault found by the run", "apiVersion: plimsoll.dev/v1alpha1\nkind: ClusterScenario\nnodes: [{metadata: {name: a, labels: {kubernetes.io/os: linux}}}]\npods: [{metadata: {name: p}}]\nevents: [{at: 1s, addPod: {metadata: {name: p}}}]\nuntil: 1m",
			[]string{"-"}, 2, []string{"events[0].addPod: default/p: "}},
		{"unknown kind", "apiVersion: plimsoll.dev/v1alpha1\nkind: Scenario", []string{"-"}, 2, []string{"kind: \"Scenario\": must be NodeScenario or ClusterScenario"}},
		{"empty input", "", []string{"-"}, 2, []string{"apiVersion: required", "kind: required", "steps: required"}},
		{"invalid YAML", "{", []string{"-"}, 2, []string{"not valid YAML or JSON"}},
		{"binary input", "\x00\xff\xfe", []string{"-"}, 2, []string{"not valid YAML or JSON"}},
		{"faults of a scenario to compare", "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeScenario\nsteps: [{at: x}]", []string{"--compare", "-"}, 2, []string{"steps[0].at: \"x\": "}},
		{"unknown format", "", []string{"-o", "xml", "-"}, 2, []string{`--output: "xml": must be text or json`}},
		{"no file", "", nil, 2, []string{"simulate takes one scenario file"}},
		{"two files", "", []string{"a", "b"}, 2, []string{"simulate takes one scenario file"}},
		{"unknown flag", "", []string{"--fast", "-"}, 2, []string{"unknown flag: --fast"}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			for _, output := range []string{"text", "json"} {
				status, out, errs := plimsoll(tc.in, append([]string{"simulate", "--output=" + output}, tc.args...)...)
				if status != tc.status || out != "" {
					t.Errorf("status %d, want %d; on standard output: %q", status, tc.status, out)
				}
				lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
				if len(lines) != len(tc.lines) {
					t.Fatalf("%d lines, want %d:\n%s", len(lines), len(tc.lines), errs)
				}
				for i := range lines {
					if !strings.HasPrefix(lines[i], tc.lines[i]) {
						t.Errorf("%s\nwant %s", lines[i], tc.lines[i])
					}
				}
			}
		})
	}
}
