// Transcript makes a document of the output of the tests of a whole node. It reads what go tool
// test2json -t writes, copies the output of the tests to standard output, and writes for every
// scenario its result, its decisions, and its pods and events as kubectl prints them.
//
//	go test -v ./test/e2e/whole | go tool test2json -t | transcript -title "Layout of kubeadm" -out FILE
//
// With -add the document is appended to the file. The exit status is 1 if a test failed, or if
// there was none.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	out := flag.String("out", "", "the file to write")
	title := flag.String("title", "", "the heading of the document")
	add := flag.Bool("add", false, "append to the file")
	flag.Parse()
	if err := run(*out, *title, *add); err != nil {
		fmt.Fprintln(os.Stderr, "transcript:", err)
		os.Exit(1)
	}
}

func run(out, title string, add bool) error {
	if out == "" || title == "" {
		return errors.New("set -out and -title")
	}
	stories, err := read(os.Stdin, os.Stdout)
	if err != nil {
		return err
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if add {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	file, err := os.OpenFile(out, mode, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(document(title, stories))
	return errors.Join(err, file.Close(), verdict(stories))
}

// event is a line of go tool test2json.
type event struct {
	Action  string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// story is a scenario, or a test without scenarios.
type story struct {
	test   string // TestX/name_of_scenario
	result string // pass, fail or skip, empty without an end
	took   float64
	blocks []block
}

// block is one entry of the test's log.
type block struct {
	command string // what printed it, or "decision"
	text    string
}

// read collects the stories of all tests, in the order of their begin. It copies the output.
func read(from io.Reader, to io.Writer) (stories []*story, err error) {
	byTest := map[string]*story{}
	for lines := json.NewDecoder(from); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return stories, nil
		} else if err != nil {
			return nil, fmt.Errorf("standard input is not the output of go tool test2json: %w", err)
		}
		if _, err := io.WriteString(to, e.Output); err != nil {
			return nil, err
		}
		if e.Test == "" {
			continue
		}
		s := byTest[e.Test]
		if s == nil {
			s = &story{test: e.Test}
			byTest[e.Test] = s
			stories = append(stories, s)
		}
		switch e.Action {
		case "output":
			s.add(e.Output)
		case "pass", "fail", "skip":
			s.result, s.took = e.Action, e.Elapsed
		}
	}
}

// add adds a line of the test's log. An entry begins with the place in the code, its other lines are
// indented by four spaces more.
func (s *story) add(line string) {
	line = strings.TrimRight(line, "\n")
	if _, entry, ok := strings.Cut(line, "_test.go:"); ok {
		_, entry, _ = strings.Cut(entry, ": ")
		switch decision, is := strings.CutPrefix(entry, "decision: "); {
		case is:
			s.blocks = append(s.blocks, block{"decision", decision})
		case strings.HasPrefix(entry, "kubectl "):
			s.blocks = append(s.blocks, block{command: entry})
		default:
			s.blocks = append(s.blocks, block{})
		}
		return
	}
	if n := len(s.blocks); n > 0 && strings.HasPrefix(line, "        ") && s.blocks[n-1].command != "" {
		last := &s.blocks[n-1]
		last.text += strings.TrimRight(strings.TrimPrefix(line, "        "), " ") + "\n"
	}
}

// document renders the stories in Markdown. A test with scenarios has no part of its own.
func document(title string, stories []*story) string {
	var all strings.Builder
	fmt.Fprintf(&all, "# %s\n\n| scenario | s | result |\n|---|---|---|\n", title)
	for _, s := range stories {
		fmt.Fprintf(&all, "| %s | %.0f | %s |\n", s.name(), s.took, s.result)
	}
	for _, s := range stories {
		if !strings.Contains(s.test, "/") {
			continue
		}
		fmt.Fprintf(&all, "\n## %s\n", s.name())
		for i, b := range s.blocks {
			switch {
			case b.command == "":
			case b.command != "decision":
				fmt.Fprintf(&all, "\n    $ %s\n%s", b.command, indented(b.text))
			case i > 0 && s.blocks[i-1].command == "decision":
				all.WriteString(indented(b.text))
			default:
				all.WriteString("\n" + indented(b.text))
			}
		}
	}
	return all.String() + "\n"
}

func (s *story) name() string {
	test, scenario, _ := strings.Cut(s.test, "/")
	if scenario == "" {
		return "`" + test + "`"
	}
	return strings.ReplaceAll(scenario, "_", " ")
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}

// verdict returns an error unless every test passed.
func verdict(stories []*story) error {
	if len(stories) == 0 {
		return errors.New("no test ran")
	}
	for _, s := range stories {
		if s.result != "pass" {
			return fmt.Errorf("%s: %s", s.test, cmp.Or(s.result, "no result"))
		}
	}
	return nil
}
