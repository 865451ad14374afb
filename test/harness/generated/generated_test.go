package generated_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/generated"
)

// verdict is a test that notes its failure in place of failing.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Fatalf(string, ...any) { v.failed = true; runtime.Goexit() }

func TestCompare_WritesOnlyBetweenMarks(t *testing.T) {
	for name, tc := range map[string]struct {
		text   string
		update bool
		want   string
		fails  bool
	}{
		"equal":           {"head <a>new</a> tail", false, "head <a>new</a> tail", false},
		"different":       {"head <a>old</a> tail", false, "head <a>old</a> tail", true},
		"to be written":   {"head <a>old</a> tail", true, "head <a>new</a> tail", false},
		"without marks":   {"head", true, "head", true},
		"without the end": {"head <a>old", true, "head <a>old", true},
	} {
		path := filepath.Join(t.TempDir(), "document")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		v, done := &verdict{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			generated.Compare(v, path, tc.update, generated.Part{Begin: "<a>", End: "</a>", Text: []byte("new")})
		}()
		<-done
		if got, err := os.ReadFile(path); err != nil || string(got) != tc.want || v.failed != tc.fails {
			t.Errorf("%s: got %q, %v, failed %t", name, got, err, v.failed)
		}
	}
}
