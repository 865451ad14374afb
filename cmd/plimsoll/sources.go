package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// Bounds of the records of many nodes.
const (
	maxSources     = 4096
	maxSourceBytes = 256 << 30 // of all files. Each is read by itself, and has recordingcmd.MaxBytes at most
)

// Suffixes by which the files of a directory are found.
const (
	recordingSuffix = ".recording"
	linesSuffix     = ".jsonl"
	segmentSuffix   = ".segment"
)

// source is a file of records, or the directory of an agent with its segments in their order.
type source struct {
	name    string
	files   []string
	isLines bool // of the decision log
}

// node returns the node that lines of the decision log are about: the name of the file.
func (s *source) node() string { return strings.TrimSuffix(filepath.Base(s.name), linesSuffix) }

// each calls f with each file and its content. Returns the first error of f, or of a file.
func (s *source) each(f func(file string, data []byte) error) error {
	debug.SetGCPercent(collectPercent)
	for _, name := range s.files {
		data, err := recordingcmd.ReadFile(strings.NewReader(""), name) // a file named - is none
		if errors.Is(err, fs.ErrNotExist) && len(s.files) > 1 {         // a segment that the agent has removed meanwhile
			continue
		}
		if err == nil {
			err = f(name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findSources returns the records of files and directories, in the order of their names. In a directory these are files
// with the suffixes above, and directories of agents, at any depth. Returns an error if there are none, or too many.
func findSources(paths []string) (all []source, err error) {
	total := int64(0)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("find the records of nodes: %w", err)
		}
		found := []source{{name: path, files: []string{path}, isLines: filepath.Ext(path) == linesSuffix}}
		if info.IsDir() {
			if found, err = sourcesBelow(path); err != nil {
				return nil, err
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("find the records of nodes in %s: it has no file *%s, *%s or *%s", path, recordingSuffix, linesSuffix, segmentSuffix)
		}
		all = append(all, found...)
	}
	for _, s := range all {
		for _, name := range s.files {
			if info, err := os.Stat(name); err == nil {
				total += info.Size()
			}
		}
	}
	if len(all) > maxSources || total > maxSourceBytes {
		return nil, fmt.Errorf("find the records of nodes: %d recordings with %s, at most %d with %s: give fewer", len(all), recordingcmd.Size(total), maxSources, recordingcmd.Size(maxSourceBytes))
	}
	return all, nil
}

// sourcesBelow returns the records in a directory.
func sourcesBelow(dir string) (all []source, err error) {
	agents := map[string]bool{}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil { // a walk follows no link
		dir = resolved
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		// The open of a pipe blocks, and a device has no end. A link to a file is one.
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return nil
		}
		switch filepath.Ext(path) {
		case recordingSuffix, linesSuffix:
			all = append(all, source{name: path, files: []string{path}, isLines: filepath.Ext(path) == linesSuffix})
		case segmentSuffix:
			agents[filepath.Dir(path)] = true
		}
		if len(all)+len(agents) > maxSources {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the records of nodes: %w", err)
	}
	for agent := range agents {
		segments, err := ring.List(agent)
		if err != nil {
			return nil, err
		}
		s := source{name: agent}
		for _, segment := range segments {
			s.files = append(s.files, segment.Path)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// progress writes how much is done to a terminal, and nothing to any other output.
type progress struct {
	out   io.Writer // nil: no terminal
	what  string
	total int
}

func newProgress(errs io.Writer, what string, total int) *progress {
	p := &progress{what: what, total: total}
	if recordingcmd.IsTerminal(errs) {
		p.out = errs
	}
	return p
}

// done writes that n items are done. The last one erases the line.
func (p *progress) done(n int) {
	switch {
	case p.out == nil:
	case n == p.total:
		fmt.Fprintf(p.out, "\r%*s\r", len(p.what)+24, "")
	default:
		fmt.Fprintf(p.out, "\r%s: %d of %d", p.what, n, p.total)
	}
}

// explainMalformed returns the error of a malformed file as one of the input, with its remedy.
func explainMalformed(err error) error {
	if malformed, is := errors.AsType[*recording.MalformedError](err); is && !errors.Is(err, recording.ErrNoRecording) {
		return invalidError{fmt.Errorf("%w: export it again, or give --allow-damage to use the rest of %s", err, malformed.File)}
	}
	if errors.Is(err, recording.ErrNoRecording) {
		return invalidError{err}
	}
	return err
}
