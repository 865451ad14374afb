// Package result is the file of one run: what was run where, what was observed, and the score. Readers
// compute the score again, so that a file can not claim a better one than its observation gives.
package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// Format is the version of the format. A change that readers must know changes it.
const Format = "node-pressure-bench/1"

// Result is one run, or the reason why there is no observation of it.
type Result struct {
	Format      string     `json:"format"`
	Started     time.Time  `json:"started"`
	Machine     Machine    `json:"machine"`
	Arena       string     `json:"arena"`
	Incident    Incident   `json:"incident"`
	Contestant  Contestant `json:"contestant"`
	Benchmark   string     `json:"benchmark"` // revision of the program
	Seed        uint64     `json:"seed"`
	Unavailable string     `json:"unavailable,omitempty"` // why the contestant can not run
	Failed      string     `json:"failed,omitempty"`      // why the run has no observation, although it began
	// KernelLog has the lines of the kernel's log about OOM kills during the run, to judge the referee by.
	KernelLog []string `json:"kernelLog,omitempty"`

	Observation *score.Observation `json:"observation,omitempty"`
	Score       *score.Score       `json:"score,omitempty"`
}

// Named identifies a file of the catalogue.
type Named struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Hash  string `json:"hash"`
}

// Contestant is the contestant of a run.
type Contestant struct {
	Named
	Version    string `json:"version,omitempty"`    // as the program prints it
	Documented string `json:"documented,omitempty"` // where its configuration comes from
}

// Incident is the incident of a run with what its report needs.
type Incident struct {
	Named
	Reenacts []string     `json:"reenacts"`
	Differs  string       `json:"differs,omitempty"`
	Cause    string       `json:"cause"`
	Expect   score.Expect `json:"expect"`
}

// maxSize bounds a file, and maxFiles a folder.
const (
	maxSize  = 4 << 20
	maxFiles = 100_000
)

// naming matches names, which are part of the file's name.
var naming = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Name returns the name of the file of a run.
func (r *Result) Name() string {
	return fmt.Sprintf("%s.%s.%s.v%d.%d.json", r.Incident.Name, r.Contestant.Name, r.Arena, r.Machine.Cgroup, r.Seed)
}

// Write writes the result into a folder, or as one line to standard output if the folder is "-". The file appears complete or
// not at all. A valid result is never replaced, and a run without a verdict remains beside a later one with a verdict: both
// are further attempts, with a number in the name of the file. Returns an error if the folder has a valid result of this run
// that differs in machine, incident, contestant or its version.
func (r *Result) Write(folder string) error {
	if folder == "-" {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name, err := r.free(folder)
	if err != nil || name == "" {
		return err
	}
	if err := os.WriteFile(name+".part", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

// maxAttempts bounds the runs of one seed.
const maxAttempts = 100

// free returns the path of a file that has no result to keep, with a number from the second attempt on. It is empty if there
// is nothing to write: what ran once is not unavailable.
func (r *Result) free(folder string) (path string, err error) {
	base := strings.TrimSuffix(filepath.Join(folder, r.Name()), ".json")
	for n := range maxAttempts {
		if path = base + ".json"; n > 0 {
			path = fmt.Sprintf("%s.attempt%d.json", base, n+1)
		}
		old, err := ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && old.Unavailable != "":
			return path, nil
		case err != nil:
			return "", err
		case r.Unavailable != "":
			return "", nil
		case old.Valid() && old.Identity() != r.Identity():
			return "", fmt.Errorf("write %s: it is a valid result of machine %q, incident %s, contestant %s %q: use another folder for this one of %q, %s, %s %q", path,
				old.Machine.Name, old.Incident.Hash, old.Contestant.Hash, old.Contestant.Version, r.Machine.Name, r.Incident.Hash, r.Contestant.Hash, r.Contestant.Version)
		}
	}
	return "", fmt.Errorf("write %s: %d attempts exist: the run has no verdict here", base, maxAttempts)
}

// Parse reads one result and computes its score again. Returns an error if the text is none.
func Parse(text []byte) (*Result, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	r := &Result{}
	if err := decoder.Decode(r); err != nil {
		return nil, err
	}
	switch {
	case r.Format != Format:
		return nil, fmt.Errorf("format %q, want %q", r.Format, Format)
	case !naming.MatchString(r.Incident.Name) || !naming.MatchString(r.Contestant.Name) || !naming.MatchString(r.Arena):
		return nil, fmt.Errorf("names %q, %q, %q: want lower-case letters, digits and -", r.Incident.Name, r.Contestant.Name, r.Arena)
	}
	reasons := 0
	for _, reason := range []string{r.Unavailable, r.Failed} {
		if reason != "" {
			reasons++
		}
	}
	if reasons > 1 || (r.Observation == nil) == (reasons == 0) {
		return nil, errors.New("want exactly one of observation, unavailable and failed")
	}
	r.Score = nil
	if r.Observation != nil {
		s := score.Of(r.Incident.Expect, r.Observation)
		r.Score = &s
	}
	return r, nil
}

// Read reads all results of a folder and of those below, in the order of their names. Returns an error
// for a file that is none.
func Read(folder string) (all []*Result, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		if len(all) == maxFiles {
			return fmt.Errorf("more than %d results", maxFiles)
		}
		r, err := ReadFile(path)
		if err == nil {
			all = append(all, r)
		}
		return err
	})
	return all, err
}

// ReadFile reads the result of one file. Returns an error for a file that is none.
func ReadFile(path string) (*Result, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	r, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s: more than %d bytes", path, maxSize)
	}
	return text, err
}

// Collect writes each line of a stream that is a result into a folder, and passes the other lines on:
// the way from a virtual machine, which has a console only. Each result is written when its line arrives, so that
// a stream that breaks loses none. Returns the number of results, and the error of the first line that is none.
func Collect(in io.Reader, others io.Writer, folder string) (n int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxSize)
	var bad error
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		if !bytes.HasPrefix(line, []byte(`{"format":`)) {
			if _, err := fmt.Fprintf(others, "%s\n", line); err != nil {
				return n, err
			}
			continue
		}
		r, err := Parse(line)
		if err != nil {
			if bad == nil {
				bad = fmt.Errorf("line %d: %w", number, err)
			}
			continue
		}
		if err := r.Write(folder); err != nil {
			return n, err
		}
		n++
	}
	return n, errors.Join(bad, lines.Err())
}

// Done returns the identities of the valid runs of a folder and of those below. A folder that does not exist has none.
func Done(folder string) (map[string]bool, error) {
	done := map[string]bool{}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	all, err := Read(folder)
	for _, r := range all {
		if r.Valid() {
			done[r.Identity()] = true
		}
	}
	return done, err
}

// Valid reports whether the run has a verdict that counts.
func (r *Result) Valid() bool { return r.Score != nil && r.Score.Verdict != score.Invalid }

// Identity identifies a run in one line: two runs with one identity repeat each other.
func (r *Result) Identity() string {
	return fmt.Sprintf("%q", []string{r.Name(), r.Machine.Name, r.Incident.Hash, r.Contestant.Hash, r.Contestant.Version})
}
