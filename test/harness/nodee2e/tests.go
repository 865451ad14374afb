package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// result is what the tests reported about a spec that ran.
type result struct {
	Time    time.Time `json:"time"` // of its end
	Spec    string    `json:"spec"`
	Mode    string    `json:"mode"`
	Agent   []string  `json:"agent,omitempty"`
	State   string    `json:"state"` // passed, failed, skipped, timedout, …
	Seconds float64   `json:"seconds"`
	Message string    `json:"message,omitempty"`
	Where   string    `json:"where,omitempty"`
	Step    string    `json:"step,omitempty"` // the last one before the failure
}

// report is the part of Ginkgo's JSON report that is read.
type report []struct {
	SpecReports []specReport
}

type specReport struct {
	LeafNodeType string
	State        string
	RunTime      time.Duration
	Failure      struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
		TimelineLocation timelineLocation
	}
	SpecEvents []struct {
		SpecEventType    string
		Message          string
		TimelineLocation timelineLocation
	}
}

type timelineLocation struct{ Order int }

// runTests runs the tests of one spec. Its error is that of the run, not of the spec: the report has
// that.
func runTests(s spec) error {
	out, err := os.Create(reports + "/output.txt")
	if err != nil {
		return err
	}
	defer out.Close()
	// The tests write into their working directory, whose path has a time in it.
	dir := filepath.Join(work, "20260101T000000")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(binDir+"/"+tests,
		"--ginkgo.focus="+s.focus(), "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.timeout="+testsLimit.String(), "--ginkgo.json-report="+reports+"/report.json",
		"--report-dir="+reports, "--node-name="+nodeName, "--prepull-images=false",
		"--container-runtime-endpoint=unix://"+socket, "--system-spec-file="+work+"/system.yaml", "--server-start-timeout=10m")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "PATH="+searchPath)
	err = cmd.Run()
	if _, there := os.Stat(reports + "/report.json"); there == nil && errors.As(err, new(*exec.ExitError)) {
		return nil // the spec failed
	}
	return err
}

// readResult reads the result of the spec from the tests' report. Returns an error if the spec did not
// run: no name matches, or the suite's set-up failed.
func readResult(name string) (result, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return result{}, err
	}
	var suites report
	if err := json.Unmarshal(text, &suites); err != nil {
		return result{}, fmt.Errorf("read %s: %w", name, err)
	}
	var others []string
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			switch {
			case s.LeafNodeType == "It" && (s.State != "skipped" || s.Failure.Message != ""):
				return s.result(), nil
			case s.LeafNodeType != "It" && s.Failure.Message != "":
				others = append(others, fmt.Sprintf("%s: %s: %s", s.LeafNodeType, s.where(), s.Failure.Message))
			}
		}
	}
	return result{}, fmt.Errorf("%s has no result: the spec did not run, see output.txt beside it: %s", name, strings.Join(others, "; "))
}

func (s *specReport) where() string {
	return fmt.Sprintf("%s:%d", filepath.Base(s.Failure.Location.FileName), s.Failure.Location.LineNumber)
}

func (s *specReport) result() result {
	r := result{State: s.State, Seconds: s.RunTime.Seconds(), Message: s.Failure.Message}
	if r.Message == "" {
		return r
	}
	r.Where = s.where()
	for _, e := range s.SpecEvents { // those after a failure clean up
		if e.SpecEventType == "By" && e.TimelineLocation.Order < s.Failure.TimelineLocation.Order {
			r.Step = e.Message
		}
	}
	return r
}

// exportReports writes the reports to the machine's output.
func exportReports() error {
	text, _ := exec.Command("journalctl", "--no-pager", "--lines=20000").CombinedOutput() // an error is in the text
	if err := os.WriteFile(reports+"/journal.txt", text, 0o644); err != nil {
		return err
	}
	disk, err := os.OpenFile(wire.Output, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	w := tar.NewWriter(disk)
	err = filepath.WalkDir(reports, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return addFile(w, filepath.Base(path), path)
	})
	return errors.Join(err, w.Close(), disk.Sync(), disk.Close())
}

// addFile adds a file to an archive. One that grows meanwhile is cut off.
func addFile(w *tar.Writer, name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}
