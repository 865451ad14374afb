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

// TestDocs_DescribeController checks that each key, decision, flag and metric in the document
// exists, and that none of the required ones is missing.
func TestDocs_DescribeController(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text, metrics := read("controller.md"), read("metrics.md")
	words := append(keys(lifecycle.Decision{}), keys(explanation{})...)
	for _, word := range append(words, lifecycle.Decisions()...) {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("docs/reference/decision-log.md does not describe `%s`", word)
		}
	}
}

// TestDocs_ControllerFlagsAreTheControllers: where a page is about the controller
// alone, a flag that only the agent has is a mistake.
func TestDocs_ControllerFlagsAreTheControllers(t *testing.T) {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	config.AddFlags(flags)
	others := map[string]bool{"controllers": true} // kube-controller-manager's flags
	for _, found := range regexp.MustCompile(`--([a-z][a-z-]+[a-z])`).FindAllStringSubmatch(text, -1) {
		if flags.Lookup(found[1]) == nil && !slices.Contains(others, found[1]) {
			t.Errorf("docs/how-to/replace-the-controllers.md names the flag %s, which the controller does not have", found[0])
		}
	}
}

// keys returns the JSON keys of a struct.
func keys(of any) (names []string) {
	for field := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
