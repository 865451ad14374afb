package test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md instead of comparing it")

// configurationHead is the beginning of docs/reference/configuration.md.
const configurationHead = "# Configuration\n" + `
<!-- Made from the tables of options by go test ./test -run TestReference -update: do not edit. -->

Every option is a flag and a field of the file named by ` + "`--config`" + `. A flag overrides the file, and the
file overrides the default. A map or a list given as a flag replaces the whole one of the file. All errors are
reported at once, up to 100. A configuration with errors is not used in part. ` + "`plimsoll config check FILE`" + ` checks a file.

Agent and controller watch their file. Changes of fields with ` + "`yes`" + ` in the column reload apply while they run; other changes need a
restart ([change the configuration](../how-to/change-the-configuration.md)).

`

// TestReference_IsUpToDate compares docs/reference/configuration.md with the tables of options. With
// -update it writes the file.
func TestReference_IsUpToDate(t *testing.T) {
	path := filepath.Join("..", "docs", "reference", "configuration.md")
	want := configurationHead + agentconfig.Reference() + "\n" + controllerconfig.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/reference/configuration.md differs from the tables of options (%v): run make docs", err)
	}
	for _, field := range slices.Concat(agentconfig.Fields(), controllerconfig.Fields()) {
		if !strings.Contains(want, "`"+field+"`") {
			t.Errorf("%s is not documented", field)
		}
	}
}
