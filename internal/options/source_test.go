package options_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/options"
)

// sourceOf returns the source of a file with that content, and of a command line.
func sourceOf(t *testing.T, content string, args ...string) *options.Source[sample] {
	t.Helper()
	set := pflag.NewFlagSet("sample", pflag.ContinueOnError)
	flags := samples.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sample.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return samples.Source(path, flags)
}

func TestChanges_NameEachDifference(t *testing.T) {
	head := options.FileHead("Sample")
	long := strings.Repeat("x", 300)
	for _, tc := range []struct {
		before, after string
		want          []string
	}{
		{"", "", nil},
		{"count: 7\n", "", nil}, // the default
		{"name: none\nlabels: {}\nports: []\n", "", nil},
		{"name: a\n", "name: b\n", []string{`name: "a" -> "b", live`}},
		{"", "count: 8\nenabled: true\n", []string{`count: "7" -> "8", restart`, `enabled: false -> true, restart`}},
		{"limits: {x: 1, z: 2}\n", "limits: {z: 2, x: 3}\n", []string{`limits: {"x":"1","z":"2"} -> {"x":"3","z":"2"}, live`}},
		{"ports: [a, b]\n", "ports: [b, a]\n", []string{`ports: ["a","b"] -> ["b","a"], restart`}},
		{"gates: {A: true}\n", "", []string{`gates: {"A":true} -> {}, restart`}},
		{"", "name: " + long + "\n", []string{`name: "none" -> "` + long[:255] + "…, live"}},
	} {
		s := sourceOf(t, "")
		before, err := s.Parse([]byte(head + tc.before))
		if err != nil {
			t.Fatal(err)
		}
		after, err := s.Parse([]byte(head + tc.after))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range s.Changes(before, after) {
			how := "restart"
			if c.Live {
				how = "live"
			}
			got = append(got, c.String()+", "+how)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q to %q: got %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
	if got := samples.Live(); !slices.Equal(got, []string{"name", "limits"}) {
		t.Errorf("live options: %q", got)
	}
}

// A flag overrides the file, also when that is read again.
func TestSource_FlagsOverrideEachContent(t *testing.T) {
	head := options.FileHead("Sample")
	s := sourceOf(t, head+"name: a\ncount: 1\n", "--name=flag", "--limits=x<5")
	before, err := s.Load()
	if err != nil || before.name != "flag" || before.count != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	if want := options.Sum([]byte(head + "name: a\ncount: 1\n")); s.Sum() != want || len(want) != 64 {
		t.Errorf("sum %q, want %q", s.Sum(), want)
	}
	if err := os.WriteFile(s.Path(), []byte(head+"name: b\ncount: 2\nlimits: {x: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Parse(data)
	if err != nil || after.name != "flag" || after.count != 2 || after.limits.Settings[0].Text != "5" {
		t.Errorf("%+v, %v", after, err)
	}
	changes := s.Changes(before, after)
	if len(changes) != 1 || changes[0].Field != "count" || !slices.Equal(s.Overridden(), []string{"name", "limits"}) {
		t.Errorf("changes %v, overridden %v", changes, s.Overridden())
	}
	if _, err := s.Parse([]byte(head + "count: -1\n")); err == nil {
		t.Error("a content that is not valid was parsed")
	}
}

// What is no regular file of a sane size is refused at once: no read waits for the writer of a pipe.
func TestSource_ReadRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		make      func(path string) error
		want      string
		watchable bool
	}{
		"missing":   {func(string) error { return nil }, "no such file", true},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "no regular file", false},
		"pipe":      {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "no regular file", false},
		"device":    {func(path string) error { return os.Symlink("/dev/zero", path) }, "no regular file", false},
		"too large": {func(path string) error {
			return os.WriteFile(path, make([]byte, options.MaxFileBytes+1), 0o600)
		}, "is larger than 1048576 bytes", true},
		"loop of links": {func(path string) error { return os.Symlink(path, path) }, "too many levels", true},
	} {
		s := sourceOf(t, "")
		if err := os.Remove(s.Path()); err != nil {
			t.Fatal(err)
		}
		if err := tc.make(s.Path()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), s.Path()) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if s.IsWatchable() != tc.watchable {
			t.Errorf("%s: watchable %t", name, s.IsWatchable())
		}
	}
	if none := samples.Source("", &options.Flags{}); none.IsWatchable() {
		t.Error("no file is watchable")
	}
	s := sourceOf(t, strings.Repeat("#", options.MaxFileBytes))
	if data, err := s.Read(); err != nil || len(data) != options.MaxFileBytes {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
