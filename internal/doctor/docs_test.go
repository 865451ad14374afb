package doctor_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/doctor"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/findings.md instead of comparing them")

// table returns the marks around a table of docs/reference/findings.md.
func table(name string) (begin, end []byte) {
	return fmt.Appendf(nil, "<!-- begin %s -->\n", name), fmt.Appendf(nil, "<!-- end %s -->\n", name)
}

func written(codes []doctor.Code) []byte {
	var b bytes.Buffer
	b.WriteString("| code | severity | what it means | remedy |\n|---|---|---|---|\n")
	for _, c := range codes {
		cell := strings.NewReplacer("|", "\\|", "*", "\\*")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Code, c.Severity, cell.Replace(c.Means), cell.Replace(c.Remedy))
	}
	return b.Bytes()
}

// TestReference_FindingsAreUpToDate compares the tables of docs/reference/findings.md with those of the code.
func TestReference_FindingsAreUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "findings.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	updated := bytes.Clone(text)
	for name, codes := range map[string][]doctor.Code{"node": doctor.NodeCodes(), "cluster": doctor.ClusterCodes()} {
		begin, end := table(name)
		before, rest, found := bytes.Cut(updated, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no marks %q and %q", path, begin, end)
		}
		updated = bytes.Join([][]byte{before, begin, written(codes), end, after}, nil)
	}
	switch {
	case bytes.Equal(updated, text):
	case *update:
		if err := os.WriteFile(path, updated, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the tables of findings: run go test ./internal/doctor -update", path)
	}
}
