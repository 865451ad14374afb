package simulate_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/simulate"
)

// documented matches the example of a NodeScenario and its output in docs/reference/scenarios.md.
var documented = regexp.MustCompile("(?s)```yaml\n([^`]*kind: NodeScenario.*?)```.*?```\n(.*?)```")

func TestDocs_ExamplePrintsShownOutput(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	found := documented.FindStringSubmatch(string(page))
	if found == nil {
		t.Fatal("docs/reference/scenarios.md has no example of a NodeScenario")
	}
	if _, printed := run(t, []byte(found[1])); printed != found[2] {
		t.Errorf("docs/reference/scenarios.md shows\n%sbut it prints\n%s", found[2], printed)
	}
}

// comparison matches a comparison of an example and its output in docs/explanation/pods-that-help.md.
var comparison = regexp.MustCompile("(?s)```console\n\\$ plimsoll simulate --compare (examples/\\S+)\n(.*?)```")

func TestDocs_ComparisonPrintsShownOutput(t *testing.T) {
	page, err := os.ReadFile("../docs/explanation/pods-that-help.md")
	if err != nil {
		t.Fatal(err)
	}
	found := comparison.FindStringSubmatch(string(page))
	if found == nil {
		t.Fatal("docs/explanation/pods-that-help.md has no comparison of an example")
	}
	data, err := os.ReadFile("../" + found[1])
	if err != nil {
		t.Fatal(err)
	}
	_, printed := compare(t, data)
	if line, missing := notPrinted(found[2], printed); missing {
		t.Errorf("docs/explanation/pods-that-help.md shows %q, but this is not printed, or not in this order:\n%s", line, printed)
	}
}

// TestDocs_DescribeKeysOfComparison: docs/reference/scenarios.md has every key of -o json --compare,
// in its order.
func TestDocs_DescribeKeysOfComparison(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n### Comparing both choices\n")
	if !found {
		t.Fatal("docs/reference/scenarios.md does not describe the comparison")
	}
	rest, _, _ = strings.Cut(rest, "\n### ")
	for _, part := range []any{simulate.Difference{}, simulate.Chosen{}, simulate.SummaryLine{}, simulate.Summary{}, simulate.Total{}} {
		after := rest
		for i := range reflect.TypeOf(part).NumField() {
			key := reflect.TypeOf(part).Field(i).Tag.Get("json")
			if _, after, found = strings.Cut(after, "`"+key+"`"); !found {
				t.Errorf("docs/reference/scenarios.md does not describe %q of %T, or not in its order", key, part)
				break
			}
		}
	}
}
