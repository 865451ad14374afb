package reload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// sample is a configuration with an option that is live, and one that is not.
type sample struct {
	limit, place string
	options.Origins
}

var table = options.Table[sample]{
	Kind: "Sample",
	Options: []options.Option[sample]{
		{Field: "limit", Live: true, Flag: "limit", Default: "none", Set: options.OneOf(func(c *sample) *string { return &c.limit }, "none", "low", "high")},
		{Field: "place", Flag: "place", Set: options.String(func(c *sample) *string { return &c.place })},
	},
	Defaults: func() *sample { return &sample{limit: "none", Origins: options.Origins{}} },
	Origins:  func(c *sample) options.Origins { return c.Origins },
	Validate: func(*sample, *strictyaml.Faults) {},
}

// env is a watch of a file in a directory of the test.
type env struct {
	t       *testing.T
	path    string
	watch   *Watch[sample]
	applied []string
	log     logcapture.Book
	now     time.Time
}

func newEnv(t *testing.T, path, content string, args ...string) *env {
	t.Helper()
	e := &env{t: t, path: path, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	e.write(content)
	e.open(args...)
	return e
}

// open loads the file and begins to watch it.
func (e *env) open(args ...string) {
	e.t.Helper()
	set := pflag.NewFlagSet("sample", pflag.ContinueOnError)
	flags := table.AddFlags(set)
	if err := set.Parse(args); err != nil {
		e.t.Fatal(err)
	}
	source := table.Source(e.path, flags)
	c, err := source.Load()
	if err != nil {
		e.t.Fatal(err)
	}
	e.watch = New(Options[sample]{Source: source, Current: c, Apply: func(next *sample) {
		if e.watch.Config() != next {
			e.t.Error("a configuration is applied before it is in force")
		}
		e.applied = append(e.applied, next.limit)
	}, Log: e.log.Logger()})
}

func (e *env) write(content string) {
	e.t.Helper()
	if err := os.WriteFile(e.path, []byte(content), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) poll(times int) {
	for range times {
		e.now = e.now.Add(Period)
		e.watch.poll(e.now)
	}
}

func text(fields string) string { return options.FileHead("Sample") + fields }

// changes are ways in which a file changes, each from "limit: low". want is the cause of the refusal, or empty
// if the limit high is applied.
var changes = map[string]struct {
	change func(e *env) error
	want   Cause
	words  string
}{
	"valid":       {func(e *env) error { e.write(text("limit: high\n")); return nil }, "", ""},
	"not valid":   {func(e *env) error { e.write(text("limit: medium\ncolour: red\n")); return nil }, Invalid, "colour"},
	"no YAML":     {func(e *env) error { e.write("a: [\n"); return nil }, Invalid, ""},
	"other kind":  {func(e *env) error { e.write("apiVersion: v1\nkind: Pod\n"); return nil }, Invalid, "kind"},
	"empty":       {func(e *env) error { e.write(""); return nil }, Invalid, ""},
	"truncated":   {func(e *env) error { return os.Truncate(e.path, 20) }, Invalid, ""},
	"too large":   {func(e *env) error { e.write(text(strings.Repeat("#\n", options.MaxFileBytes/2))); return nil }, Unreadable, "larger than"},
	"fixed field": {func(e *env) error { e.write(text("limit: high\nplace: /x\n")); return nil }, Restart, `place: "" -> "/x"`},
	"deleted":     {func(e *env) error { return os.Remove(e.path) }, Unreadable, "no such file"},
	"renamed over": {func(e *env) error {
		other := e.path + ".new"
		if err := os.WriteFile(other, []byte(text("limit: high\n")), 0o600); err != nil {
			return err
		}
		return os.Rename(other, e.path)
	}, "", ""},
	"link to another file": {func(e *env) error {
		other := e.path + ".new"
		if err := os.WriteFile(other, []byte(text("limit: high\n")), 0o600); err != nil {
			return err
		}
		if err := os.Remove(e.path); err != nil {
			return err
		}
		return os.Symlink(other, e.path)
	}, "", ""},
	"dangling link": {func(e *env) error {
		if err := os.Remove(e.path); err != nil {
			return err
		}
		return os.Symlink(e.path+".gone", e.path)
	}, Unreadable, "no such file"},
	"directory": {func(e *env) error {
		if err := os.Remove(e.path); err != nil {
			return err
		}
		return os.Mkdir(e.path, 0o700)
	}, Unreadable, "no regular file"},
	"pipe": {func(e *env) error {
		if err := os.Remove(e.path); err != nil {
			return err
		}
		return syscall.Mkfifo(e.path, 0o600)
	}, Unreadable, "no regular file"},
}

func TestWatch_AppliesOrRefusesWhole(t *testing.T) {
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"))
			e.poll(3)
			if s := e.watch.Status(); s.Applied+s.Refusals != 0 || s.Sum != options.Sum([]byte(text("limit: low\n"))) {
				t.Fatalf("before the change: %+v", s)
			}
			if err := tc.change(e); err != nil {
				t.Fatal(err)
			}
			e.poll(1)
			if len(e.applied) != 0 || e.watch.Status().Refused {
				t.Error("considered after one poll")
			}
			e.poll(5)
			s := e.watch.Status()
			if tc.want == "" {
				if s.Refused || s.Applied != 1 || e.watch.Config().limit != "high" || fmt.Sprint(e.applied) != "[high]" || e.watch.Err() != nil {
					t.Errorf("not applied: %+v, %v", s, e.applied)
				}
				if e.log.Count("Applied a changed configuration") != 1 || e.log.Count(`limit: \"low\" -> \"high\"`) != 1 {
					t.Errorf("logged\n%s", e.log.String())
				}
				return
			}
			r := e.watch.state.Load().refused
			if r == nil || r.Cause != tc.want || !strings.Contains(strings.Join(r.Problems, " "), tc.words) || s.Refusals != 1 || len(e.applied) != 0 || e.watch.Config().limit != "low" {
				t.Fatalf("refusal %+v, status %+v, applied %v", r, s, e.applied)
			}
			if e.log.Count("Refused a changed configuration") != 1 || e.log.Count("cause="+string(tc.want)) != 1 {
				t.Errorf("logged\n%s", e.log.String())
			}
			if err := e.watch.Err(); err == nil || !strings.Contains(err.Error(), r.Remedy) || !strings.Contains(err.Error(), r.Problems[0]) {
				t.Errorf("Err: %v", err)
			}
		})
	}
}

func TestWatch_UnreadableFile(t *testing.T) {
	e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"))
	if err := errors.Join(os.Remove(e.path), os.Symlink(e.path, e.path)); err != nil { // root would read any file
		t.Fatal(err)
	}
	e.poll(3)
	if r := e.watch.state.Load().refused; r == nil || r.Cause != Unreadable || e.watch.Config().limit != "low" {
		t.Errorf("%+v", r)
	}
}

// After a refusal the file may become the one in force again, or another valid one.
func TestWatch_RecoversFromRefusal(t *testing.T) {
	for name, tc := range changes {
		if tc.want == "" {
			continue
		}
		for _, next := range []string{"low", "high"} {
			e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"))
			if err := tc.change(e); err != nil {
				t.Fatal(err)
			}
			e.poll(3)
			if err := os.RemoveAll(e.path); err != nil {
				t.Fatal(err)
			}
			e.write(text("limit: " + next + "\n"))
			e.poll(2)
			s := e.watch.Status()
			if s.Refused || s.Refusals != 1 || e.watch.Config().limit != next || e.watch.Err() != nil {
				t.Errorf("%s, then %s: %+v, in force: %s", name, next, s, e.watch.Config().limit)
			}
			if again := e.log.Count("again the one in force"); again != map[string]int{"low": 1, "high": 0}[next] {
				t.Errorf("%s, then %s: logged\n%s", name, next, e.log.String())
			}
		}
	}
}

// A file that is written slowly is not considered before two polls have read the same.
func TestWatch_WaitsForStableContent(t *testing.T) {
	whole := text("limit: high\n")
	e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"))
	for i := range len(whole) {
		e.write(whole[:i])
		e.poll(1)
	}
	if s := e.watch.Status(); s.Refusals != 0 || s.Applied != 0 {
		t.Fatalf("considered while it was written: %+v\n%s", s, e.log.String())
	}
	e.write(whole)
	e.poll(2)
	if s := e.watch.Status(); s.Refusals != 0 || s.Applied != 1 {
		t.Errorf("%+v", s)
	}
}

// A mounted ConfigMap is a link to a link to a directory, of which the second is replaced.
func TestWatch_MountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n int, fields string) {
		at := fmt.Sprintf("..%d", n)
		if err := os.Mkdir(filepath.Join(dir, at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, at, "sample.yaml"), []byte(text(fields)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", n-1))); err != nil {
			t.Fatal(err)
		}
	}
	version(1, "limit: low\n")
	path := filepath.Join(dir, "sample.yaml")
	if err := os.Symlink(filepath.Join("..data", "sample.yaml"), path); err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, path: path}
	e.open()
	version(2, "limit: high\n")
	e.poll(2)
	version(3, "limit: medium\n")
	e.poll(2)
	if s := e.watch.Status(); s.Applied != 1 || s.Refusals != 1 || e.watch.Config().limit != "high" {
		t.Errorf("%+v", s)
	}
}

// A content without a difference is in force without being applied.
func TestWatch_Comments(t *testing.T) {
	e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"))
	before, commented := e.watch.Config(), text("# now with a comment\nlimit: low\n")
	e.write(commented)
	e.poll(2)
	if s := e.watch.Status(); len(e.applied) != 0 || e.watch.Config() != before || s.Applied != 1 || s.Sum != options.Sum([]byte(commented)) {
		t.Errorf("%+v, applied %v", s, e.applied)
	}
}

func TestWatch_FlagsOverrideAfterReload(t *testing.T) {
	e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\nplace: /a\n"), "--limit=none", "--place=/flag")
	e.write(text("limit: high\nplace: /b\n"))
	e.poll(2)
	if c := e.watch.Config(); c.limit != "none" || c.place != "/flag" || e.watch.Status().Refused || len(e.applied) != 0 {
		t.Errorf("limit %s, place %s, %+v", c.limit, c.place, e.watch.Status())
	}
}

func TestWatch_ServesConfigz(t *testing.T) {
	e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"), "--place=/flag")
	e.write(text("limit: high\n"))
	e.poll(2)
	since := e.now
	e.write(text("limit: <b>\n"))
	e.poll(2)
	answer := httptest.NewRecorder()
	e.watch.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/configz", nil))
	var got struct {
		Config  map[string]any
		Flags   []string `json:"setByFlags"`
		File    string
		Sum     string    `json:"sha256"`
		Since   time.Time `json:"inForceSince"`
		Changes []string
		Refused *Refusal
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, answer.Body)
	}
	if got.Config["limit"] != "high" || got.Config["place"] != "/flag" || got.Config["kind"] != "Sample" || fmt.Sprint(got.Flags) != "[place]" || got.File != e.path ||
		got.Sum != options.Sum([]byte(text("limit: high\n"))) || !got.Since.Equal(since) || fmt.Sprint(got.Changes) != `[limit: "low" -> "high"]` {
		t.Errorf("%+v", got)
	}
	if r := got.Refused; r == nil || r.Cause != Invalid || r.Sum != options.Sum([]byte(text("limit: <b>\n"))) || len(r.Problems) != 1 || r.Remedy == "" {
		t.Errorf("%+v", got.Refused)
	}
}

// Many and long faults are bounded in what is logged and stored, and are refused once.
func TestWatch_BoundsProblems(t *testing.T) {
	var fields strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&fields, "unknown%d: %s\n", i, strings.Repeat("x", 100))
	}
	for name, tc := range map[string]struct {
		content  string
		problems int
	}{
		"many fields":    {fields.String(), maxProblems + 1},
		"a long field":   {"? " + strings.Repeat("k", 100<<10) + "\n: low\n", 1},
		"repeated field": {strings.Repeat("limit: low\n", 8000), 3},
	} {
		e := newEnv(t, filepath.Join(t.TempDir(), "sample.yaml"), text("limit: low\n"))
		e.write(text(tc.content))
		e.poll(4)
		s := e.watch.state.Load()
		if s.refused == nil || s.refused.Cause != Invalid || len(s.refused.Problems) != tc.problems || s.refuses != 1 || len(e.log.String()) > 16<<10 {
			t.Fatalf("%s: %d refusals, the last %.2000v, %d bytes are logged", name, s.refuses, s.refused, len(e.log.String()))
		}
		for _, p := range s.refused.Problems {
			if len(p) > maxProblemBytes+len("…") {
				t.Errorf("%s: a problem has %d bytes", name, len(p))
			}
		}
	}
}

// The error of a long path is longer than a problem may be.
func TestWatch_RefusesLongPathOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("a", 200), strings.Repeat("b", 200), strings.Repeat("c", 200))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, filepath.Join(dir, "sample.yaml"), text("limit: low\n"))
	if err := os.Remove(e.path); err != nil {
		t.Fatal(err)
	}
	e.poll(6)
	if s := e.watch.Status(); !s.Refused || s.Refusals != 1 || e.log.Count("Refused a changed configuration") != 1 {
		t.Errorf("%+v", s)
	}
}

// Run polls every Period, and ends with its context. Without a file, or with a pipe, it ends at once.
func TestRun_PollsUntilItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sample.yaml")
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, path, text("limit: low\n"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.watch.Run(ctx)
		}()
		synctest.Wait()
		e.write(text("limit: high\n"))
		<-time.After(2*Period - 1)
		synctest.Wait()
		if e.watch.Status().Applied != 0 {
			t.Error("applied before the second poll")
		}
		<-time.After(1)
		synctest.Wait()
		if got := e.watch.Status().Applied; got != 1 {
			t.Errorf("applied %d changes after two polls", got)
		}
		cancel()
		<-ended
	})
	none := New(Options[sample]{Source: table.Source("", &options.Flags{}), Current: table.Defaults()})
	none.Run(t.Context())
	if none.Err() != nil || none.Note() != "there is no file" || none.Config() == nil {
		t.Errorf("%v, %s", none.Err(), none.Note())
	}
}
