package doctor_test

import (
	"bytes"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/test/harness/generated"
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
	var parts []generated.Part
	for name, codes := range map[string][]doctor.Code{"node": doctor.NodeCodes(), "cluster": doctor.ClusterCodes()} {
		begin, end := table(name)
		parts = append(parts, generated.Part{Begin: string(begin), End: string(end), Text: written(codes)})
	}
	generated.Compare(t, filepath.Join("..", "..", "docs", "reference", "findings.md"), *update, parts...)
}
