package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// requestedCommand matches a command that a form asks for.
var requestedCommand = regexp.MustCompile("`plimsoll ([a-z]+\\b)")

// TestIssueForms_AskForExistingCommands compares the forms with the reference of commands.
func TestIssueForms_AskForExistingCommands(t *testing.T) {
	root := loaded(t).root
	commands, err := os.ReadFile(filepath.Join(root, "docs", "reference", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".github", "ISSUE_TEMPLATE", "*.yml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("got the forms %v, %v; want at least three", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var form map[string]any
		if err := yaml.UnmarshalStrict(text, &form); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		for _, command := range requestedCommand.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(commands), "### plimsoll "+command[1]) {
				t.Errorf("%s asks for plimsoll %s, which docs/reference/commands.md does not have", filepath.Base(file), command[1])
			}
		}
	}
}
