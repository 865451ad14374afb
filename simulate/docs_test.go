package simulate_test

import (
	"os"
	"regexp"
	"testing"
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
