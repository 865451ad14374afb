package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// events is what go tool test2json makes of lines of a test, which end with its result.
func events(test, result string, lines ...string) string {
	var all strings.Builder
	for _, line := range lines {
		text, _ := json.Marshal(event{Action: "output", Test: test, Output: line + "\n"})
		all.Write(text)
	}
	text, _ := json.Marshal(event{Action: result, Test: test, Elapsed: 31.4})
	all.Write(text)
	return all.String()
}

func TestDocument_HasDecisionsAndOutputOfKubectl(t *testing.T) {
	stories, err := read(strings.NewReader(
		events("TestNode/memory_by_priority", "pass",
			"    whole_test.go:9: output of helm install:", "        NAME: plimsoll",
			`    scenario_test.go:50: decision: {"decision":"evict"}`,
			`    scenario_test.go:50: decision: {"decision":"reclaim-done"}`,
			"    scenario_test.go:54: kubectl get pods", "        NAME   READY", "        calm   1/1", "        ", "        ")+
			events("TestNode", "pass")), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := `# Title

| scenario | s | result |
|---|---|---|
| memory by priority | 31 | pass |
| ` + "`TestNode`" + ` | 31 | pass |

## memory by priority

    {"decision":"evict"}
    {"decision":"reclaim-done"}

    $ kubectl get pods
    NAME   READY
    calm   1/1

`
	if got := document("Title", stories); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if err := verdict(stories); err != nil {
		t.Error(err)
	}
}

func TestVerdict_FailsUnlessEveryTestPassed(t *testing.T) {
	for name, input := range map[string]string{
		"no test":       "",
		"failed":        events("TestNode/disk", "pass") + events("TestNode", "fail"),
		"skipped":       events("TestNode", "skip"),
		"without end":   events("TestNode", "output", "=== RUN   TestNode"),
		"not from Go":   "vm: no kernel",
		"nothing valid": "{",
	} {
		stories, err := read(strings.NewReader(input), io.Discard)
		if err == nil {
			err = verdict(stories)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
