package simulate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const tutorial = "../docs/tutorials/simulate-an-incident.md"

var (
	// incident matches the file that a reader of the tutorial writes.
	incident = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	// session matches a command of the tutorial: what sed replaces in the incident and by what,
	// the file that is simulated, and its output.
	session = regexp.MustCompile("(?s)```console\n\\$ (?:sed 's/([^/]*)/([^/]*)/' incident.yaml \\| )?bin/plimsoll simulate (\\S+)\n(.*?)```")
)

// TestTutorial_PrintsShownOutput runs the commands of the tutorial. Every line that it shows
// is printed, in this order; … stands for lines that are left out.
func TestTutorial_PrintsShownOutput(t *testing.T) {
	data, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	file := incident.FindStringSubmatch(page)
	sessions := session.FindAllStringSubmatch(page, -1)
	if file == nil || len(sessions) != strings.Count(page, "```console") || len(sessions) < 4 {
		t.Fatalf("%s: incident %t, %d sessions that can be run of %d", tutorial, file != nil, len(sessions), strings.Count(page, "```console"))
	}
	for _, s := range sessions {
		from, to, name, shown := s[1], s[2], s[3], s[4]
		input := []byte(strings.ReplaceAll(file[1], from, to))
		switch {
		case from == "":
			input = []byte(file[1])
		case !strings.Contains(file[1], from):
			t.Errorf("the incident has no %q to be replaced", from)
		}
		if strings.HasPrefix(name, "examples/") {
			if input, err = os.ReadFile("../" + name); err != nil {
				t.Error(err)
				continue
			}
		}
		_, printed := run(t, input)
		if line, found := notPrinted(shown, printed); found {
			t.Errorf("%s: %q is not printed, or not in this order, by %s with %q for %q:\n%s", tutorial, line, name, to, from, printed)
		}
	}
}

// notPrinted returns the first shown line that is not printed behind the shown lines before it. The
// line … stands for lines that are left out.
func notPrinted(shown, printed string) (missing string, found bool) {
	rest := printed
	for line := range strings.Lines(shown) {
		if strings.TrimSpace(line) == "…" {
			continue
		}
		_, after, is := strings.Cut("\n"+rest, "\n"+line)
		if !is {
			return line, true
		}
		rest = after
	}
	return "", false
}
