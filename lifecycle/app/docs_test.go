package app

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/lifecycle"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

// TestDocs_DescribeTheController holds the reference of the decision log to the keys
// and decisions of the controller, and to those of /explain.
func TestDocs_DescribeTheController(t *testing.T) {
	text := operatorTexts(t)["docs/reference/decision-log.md"]
	words := append(keys(lifecycle.Decision{}), keys(explanation{})...)
	for _, word := range append(words, lifecycle.Decisions()...) {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("docs/reference/decision-log.md does not describe `%s`", word)
		}
	}
}

// namedMetric is a metric of the program in a text.
var namedMetric = regexp.MustCompile(`\b(plimsoll|node_collector|taint_eviction_controller)_[a-z_]+[a-z]\b`)

// TestDocs_NameMetricsThatExist holds documents and manifests to the table of metrics.
func TestDocs_NameMetricsThatExist(t *testing.T) {
	texts := operatorTexts(t)
	known, found := texts["docs/reference/metrics.md"], 0
	for name, text := range texts {
		for _, metric := range namedMetric.FindAllString(text, -1) {
			found++
			if !strings.Contains(known, "| `"+strings.TrimSuffix(metric, "_bucket")+"` |") {
				t.Errorf("%s names the metric %s, which does not exist", name, metric)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names of metrics were found", found)
	}
}

// TestDocs_ControllerFlagsAreTheControllers: where a page is about the controller
// alone, a flag that only the agent has is a mistake.
func TestDocs_ControllerFlagsAreTheControllers(t *testing.T) {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	config.AddFlags(flags)
	others := strings.Fields("cluster controllers namespace reset-then-reuse-values selector prefix set") // of other programs
	text := operatorTexts(t)["docs/how-to/replace-the-controllers.md"]
	for _, found := range regexp.MustCompile(`--([a-z][a-z-]+[a-z])`).FindAllStringSubmatch(text, -1) {
		if flags.Lookup(found[1]) == nil && !slices.Contains(others, found[1]) {
			t.Errorf("docs/how-to/replace-the-controllers.md names the flag %s, which the controller does not have", found[0])
		}
	}
}

// keys are those of a struct in JSON.
func keys(of any) (names []string) {
	for field := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
