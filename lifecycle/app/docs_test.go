package app

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

// TestDocs_DescribeController checks that the reference of the decision log describes all keys
// and decisions of the controller and all keys of /explain.
func TestDocs_DescribeController(t *testing.T) {
	text := document(t, "reference/decision-log.md")
	words := append(keys(lifecycle.Decision{}), keys(explanation{})...)
	for _, word := range append(words, lifecycle.Decisions()...) {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("docs/reference/decision-log.md does not describe `%s`", word)
		}
	}
}

// TestDocs_NameOnlyControllerFlags checks that a page about the controller alone names no flag
// of the agent.
func TestDocs_NameOnlyControllerFlags(t *testing.T) {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	config.AddFlags(flags)
	others := strings.Fields("cluster controllers namespace reset-then-reuse-values selector prefix tail set") // of other programs
	text := document(t, "how-to/replace-the-controllers.md")
	for _, found := range regexp.MustCompile(`--([a-z][a-z-]+[a-z])`).FindAllStringSubmatch(text, -1) {
		if flags.Lookup(found[1]) == nil && !slices.Contains(others, found[1]) {
			t.Errorf("docs/how-to/replace-the-controllers.md names the flag %s, which the controller does not have", found[0])
		}
	}
}

// document returns a page of docs.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keys returns the JSON keys of a struct.
func keys(of any) (names []string) {
	for field := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
