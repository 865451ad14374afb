package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// issueForm is a form for issues, with the keys that are used.
type issueForm struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Labels      []string `json:"labels"`
	Body        []struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Attributes struct {
			Label       string   `json:"label"`
			Description string   `json:"description"`
			Value       string   `json:"value"`
			Render      string   `json:"render"`
			Options     []string `json:"options"`
		} `json:"attributes"`
		Validations struct {
			Required bool `json:"required"`
		} `json:"validations"`
	} `json:"body"`
}

// requestedCommand matches a command that a form asks for.
var requestedCommand = regexp.MustCompile("`plimsoll ([a-z]+(?: [a-z]+)?)")

func TestIssueForms_AreValid(t *testing.T) {
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
		for _, command := range requestedCommand.FindAllStringSubmatch(string(text), -1) {
			first, _, _ := strings.Cut(command[1], " ") // the second word may be an argument
			if !strings.Contains(string(commands), "### plimsoll "+command[1]+"\n") && !strings.Contains(string(commands), "### plimsoll "+first+"\n") {
				t.Errorf("%s asks for plimsoll %s, which docs/reference/commands.md does not have", filepath.Base(file), command[1])
			}
		}
		if filepath.Base(file) != "config.yml" {
			checkIssueForm(t, filepath.Base(file), text)
		}
	}
}

func checkIssueForm(t *testing.T, name string, text []byte) {
	t.Helper()
	var form issueForm
	if err := yaml.UnmarshalStrict(text, &form); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if form.Name == "" || form.Description == "" || len(form.Labels) == 0 {
		t.Errorf("%s has no name, description or labels", name)
	}
	var ids []string
	versions := false
	for _, field := range form.Body {
		switch field.Type {
		case "markdown":
			continue
		case "dropdown":
			if len(field.Attributes.Options) < 2 {
				t.Errorf("%s: %s has no choice", name, field.ID)
			}
		case "textarea", "input":
		default:
			t.Errorf("%s: a field of type %q", name, field.Type)
		}
		if field.ID == "" || slices.Contains(ids, field.ID) || field.Attributes.Label == "" {
			t.Errorf("%s: field %q has no label, or no ID of its own", name, field.ID)
		}
		ids = append(ids, field.ID)
		versions = versions || field.ID == "versions" && field.Validations.Required
	}
	if !versions && name != "proposal.yml" {
		t.Errorf("%s does not ask for versions", name)
	}
}

func TestCodeOwners_NameWhatExists(t *testing.T) {
	root := loaded(t).root
	text, err := os.ReadFile(filepath.Join(root, ".github", "CODEOWNERS"))
	if err != nil {
		t.Fatal(err)
	}
	all := false
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		all = all || words[0] == "*"
		if len(words) < 2 || slices.ContainsFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "@") }) {
			t.Errorf("CODEOWNERS: %s: no owners", words[0])
		}
		if _, err := os.Stat(filepath.Join(root, words[0])); words[0] != "*" && err != nil {
			t.Errorf("CODEOWNERS: %v: remove the line, or name the new path", err)
		}
	}
	if !all {
		t.Error("CODEOWNERS: no line for everything else")
	}
}
