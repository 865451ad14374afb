package test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is a file of .github/workflows, with the keys that are used. Others are refused.
type workflow struct {
	Name        string            `json:"name"`
	On          map[string]any    `json:"on"` // in quotation marks: YAML 1.1 reads it as a boolean
	Permissions map[string]string `json:"permissions"`
	Concurrency struct {
		Group            string `json:"group"`
		CancelInProgress bool   `json:"cancel-in-progress"`
	} `json:"concurrency"`
	Env  map[string]string      `json:"env"`
	Jobs map[string]workflowJob `json:"jobs"`
}

type workflowJob struct {
	Needs       []string          `json:"needs"`
	RunsOn      string            `json:"runs-on"`
	Timeout     int               `json:"timeout-minutes"`
	Environment string            `json:"environment"`
	Permissions map[string]string `json:"permissions"`
	Strategy    map[string]any    `json:"strategy"`
	Env         map[string]string `json:"env"`
	Steps       []workflowStep    `json:"steps"`
}

type workflowStep struct {
	Uses string            `json:"uses"`
	Run  string            `json:"run"`
	With map[string]any    `json:"with"`
	Env  map[string]string `json:"env"`
}

var (
	// pinnedAction matches an action by its commit. A tag can be moved to another one.
	pinnedAction = regexp.MustCompile(`^([a-z-]+/[a-z-]+)@[0-9a-f]{40}$`)
	usesLine     = regexp.MustCompile(`(?m)^.*\buses: *(.*)$`)
	commented    = regexp.MustCompile(`^\S+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	// makeCall matches a step of a workflow: make, as root if need be, with targets and variables.
	makeCall   = regexp.MustCompile(`^(?:sudo env "PATH=\$PATH" CI=true )?make((?: [a-z0-9-]+)+)(?: [A-Z_]+=(?:"\$[A-Z_]+"|[A-Za-z0-9_./:-]+))*$`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+(?: [a-z0-9-]+)*):[^=]`)
)

// targets returns the targets of the Makefile.
func targets(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(loaded(t).root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.Fields(found[1])...)
	}
	return all
}

// workflowFaults returns what is wrong with a workflow, and the actions that it uses.
func workflowFaults(text string, targets []string) (faults, actions []string) {
	var w workflow
	if err := yaml.UnmarshalStrict([]byte(text), &w); err != nil {
		return []string{err.Error()}, nil
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for event := range w.On {
		if !slices.Contains([]string{"pull_request", "merge_group", "schedule", "workflow_dispatch", "push"}, event) {
			fault("the event %s is not expected: pull_request_target and workflow_run give foreign code the rights of the repository", event)
		}
	}
	if w.Permissions == nil || len(w.Permissions) > 0 {
		fault("permissions must be {}: each job has its own")
	}
	if strings.Contains(fmt.Sprint(w.Env), "secrets.") {
		fault("each of its jobs has a secret: give it to the step that needs it")
	}
	if w.Concurrency.Group == "" {
		fault("there is no concurrency group: an older run competes with a newer one")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		for _, f := range w.Jobs[name].faults(targets) {
			fault("job %s: %s", name, f)
		}
	}
	for _, line := range usesLine.FindAllStringSubmatch(text, -1) {
		if !commented.MatchString(line[1]) {
			fault("%s: name the commit of an action, and its version in a comment", line[1])
		}
		actions = append(actions, line[1])
	}
	return faults, actions
}

func (j workflowJob) faults(targets []string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if j.Permissions == nil {
		fault("it has no permissions")
	}
	privileged := false
	for scope, right := range j.Permissions {
		privileged = privileged || right != "read" && right != "none"
		if scope == "id-token" {
			fault("a token of identity is not used")
		}
	}
	if j.Timeout <= 0 {
		fault("it has no timeout-minutes: a hung test would take six hours")
	}
	if j.RunsOn == "" || strings.Contains(j.RunsOn, "latest") {
		fault("it runs on %q: name a version", j.RunsOn)
	}
	for _, s := range j.Steps {
		privileged = privileged || strings.Contains(fmt.Sprint(s.Env, s.With), "secrets.")
		faults = append(faults, s.faults(targets)...)
	}
	if privileged && j.Environment == "" {
		fault("it has a secret or may write, and no environment: no person approves its runs")
	}
	if strings.Contains(fmt.Sprint(j.Env), "secrets.") {
		fault("each of its steps has a secret: give it to the one that needs it")
	}
	return faults
}

func (s workflowStep) faults(targets []string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	action := pinnedAction.FindStringSubmatch(s.Uses)
	call := makeCall.FindStringSubmatch(s.Run)
	switch {
	case s.Uses != "" && action == nil:
		fault("%s is not pinned by the digest of a commit", s.Uses)
	case s.Uses != "":
		if action[1] == "actions/checkout" && s.With["persist-credentials"] != false {
			fault("%s leaves the token to the following steps: set persist-credentials: false", action[1])
		}
	case call == nil:
		fault("%q is no call of make: what a step does must work on any machine", s.Run)
	default:
		for _, target := range strings.Fields(call[1]) {
			if !slices.Contains(targets, target) {
				fault("the Makefile has no target %s", target)
			}
		}
	}
	return faults
}

func TestWorkflows_AreSafe(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(loaded(t).root, ".github", "workflows", "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("got the workflows %v, %v; want at least three", files, err)
	}
	digests := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		faults, actions := workflowFaults(string(text), targets(t))
		for _, f := range faults {
			t.Errorf("%s: %s", filepath.Base(file), f)
		}
		for _, action := range actions {
			name, digest, _ := strings.Cut(action, "@")
			if other, known := digests[name]; known && other != digest {
				t.Errorf("%s: %s is used as %s and as %s", filepath.Base(file), name, digest, other)
			}
			digests[name] = digest
		}
	}
}

const safeWorkflow = `
name: a
"on":
  pull_request:
permissions: {}
concurrency:
  group: a
jobs:
  a:
    runs-on: ubuntu-24.04
    timeout-minutes: 10
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          persist-credentials: false
      - run: sudo env "PATH=$PATH" CI=true make check lint KUBERNETES="$KUBERNETES" KEY=env://KEY
`

func TestWorkflowFaults_FindsViolations(t *testing.T) {
	known := []string{"check", "lint"}
	if faults, actions := workflowFaults(safeWorkflow, known); len(faults) > 0 || len(actions) != 1 {
		t.Fatalf("a safe workflow: %q, %q", faults, actions)
	}
	const digest = "@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0"
	for _, c := range []struct{ name, before, after, want string }{
		{"an unknown key", "name: a\n", "name: a\nnames: b\n", "unknown field"},
		{"a foreign event", "pull_request:", "pull_request_target:", "pull_request_target"},
		{"rights of all jobs", "permissions: {}", "permissions: {contents: write}", "permissions must be {}"},
		{"default rights", "permissions: {}\n", "", "permissions must be {}"},
		{"no group", "  group: a", "  cancel-in-progress: true", "no concurrency group"},
		{"default rights of a job", "    permissions:\n      contents: read\n", "", "it has no permissions"},
		{"a right to write", "contents: read", "contents: write", "no environment"},
		{"identity", "contents: read", "id-token: write", "token of identity"},
		{"a secret", "    steps:", "    steps:\n      - run: make check\n        env: {KEY: \"${{ secrets.KEY }}\"}", "no environment"},
		{"a secret of an action", "persist-credentials: false", "persist-credentials: false\n          token: ${{ secrets.TOKEN }}", "no environment"},
		{"a secret of all jobs", "jobs:", "env: {KEY: \"${{ secrets.KEY }}\"}\njobs:", "each of its jobs"},
		{"a secret of a job", "    steps:", "    environment: a\n    env: {KEY: \"${{ secrets.KEY }}\"}\n    steps:", "each of its steps"},
		{"no timeout", "    timeout-minutes: 10\n", "", "timeout-minutes"},
		{"a moving machine", "ubuntu-24.04", "ubuntu-latest", "name a version"},
		{"a tag", digest, "@v5", "not pinned"},
		{"no version", digest, digest[:41], "in a comment"},
		{"a token left", "persist-credentials: false", "fetch-depth: 1", "persist-credentials"},
		{"another command", "make check", "go test", "no call of make"},
		{"two commands", "make check", "make check && make", "no call of make"},
		{"text of a user", "make check lint", "make check VERSION=${{ github.head_ref }}", "no call of make"},
		{"no target", "make check", "make chekc", "no target chekc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(safeWorkflow, c.before) {
				t.Fatalf("%q is not in the safe workflow", c.before)
			}
			faults, _ := workflowFaults(strings.Replace(safeWorkflow, c.before, c.after, 1), known)
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("got %q, want a fault with %q", faults, c.want)
			}
		})
	}
}
