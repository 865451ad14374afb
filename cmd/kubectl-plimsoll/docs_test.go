package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"plimsoll.dev/plimsoll/cmd/internal/help"
	"plimsoll.dev/plimsoll/test/harness/generated"
	"plimsoll.dev/plimsoll/test/harness/manpage"
)

var update = flag.Bool("update", false, "write the generated part of docs/reference/kubectl-plimsoll.md instead of comparing it")

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

// TestReference_Client compares the generated part of docs/reference/kubectl-plimsoll.md with the
// commands and their flags.
func TestReference_Client(t *testing.T) {
	var b bytes.Buffer
	root := rootCommand(genericiooptions.NewTestIOStreamsDiscard(), false)
	eachCommand(root, func(c *cobra.Command) {
		if c.Runnable() && !c.HasSubCommands() && c.Name() != "help" {
			fmt.Fprintf(&b, "\n### %s\n\n    %s\n\n%s.\n", strings.TrimPrefix(c.CommandPath(), "kubectl plimsoll "), c.UseLine(), c.Short)
			writeFlags(&b, c.LocalNonPersistentFlags())
		}
	})
	b.WriteString("\n### Connection\n\nEvery command has these flags. All but `--heartbeat-namespace` are those of kubectl, by its library.\n")
	writeFlags(&b, root.PersistentFlags())
	generated.Compare(t, filepath.Join("..", "..", "docs", "reference", "kubectl-plimsoll.md"), *update,
		generated.Part{Begin: "<!-- begin flags: made by make docs -->\n", End: "<!-- end flags -->\n", Text: b.Bytes()})
}

// TestReference_Man compares docs/man/kubectl-plimsoll.1 with the help.
func TestReference_Man(t *testing.T) {
	text := manpage.Page(rootCommand(genericiooptions.NewTestIOStreamsDiscard(), false), nil)
	generated.Compare(t, filepath.Join("..", "..", "docs", "man", "kubectl-plimsoll.1"), *update, generated.Part{Begin: ".\\\" begin page\n", End: ".\\\" end page\n", Text: text})
}

func writeFlags(b *bytes.Buffer, flags *pflag.FlagSet) {
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		row := fmt.Sprintf("| `%s` | `%s` | %s |\n", name, cell.Replace(strings.Trim(f.DefValue, "[]")), cell.Replace(usage))
		b.WriteString(strings.ReplaceAll(row, "| `` |", "| |"))
	})
}

// Each help text has a description, examples that parse, and lines that fit into a terminal.
func TestHelp_StandsAlone(t *testing.T) {
	eachCommand(rootCommand(genericiooptions.NewTestIOStreamsDiscard(), false), func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		if c.Runnable() && (c.Long == "" || c.Example == "" || c.GroupID == "" && !c.Parent().HasParent()) {
			t.Errorf("%s: no description, example or group", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			checkLine(t, "the help of "+c.CommandPath(), line)
		}
		status, out, errs := execute(append(strings.Fields(strings.TrimPrefix(c.CommandPath(), "kubectl plimsoll")), "--help")...)
		if status != 0 || errs != "" || !strings.Contains(out, "\nFlags of every command:\n") || !strings.Contains(out, "--context string") {
			t.Errorf("%s --help: status %d\n%s%s", c.CommandPath(), status, out, errs)
		}
		for line := range strings.Lines(out) {
			if len(line) > help.MaxColumns+1 {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), len(line), line)
			}
		}
	})
}

// checkLine checks that a line which begins with kubectl plimsoll has a command, and flags of it.
func checkLine(t *testing.T, where, line string) (checked bool) {
	t.Helper()
	line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
	rest, is := strings.CutPrefix(line, "kubectl plimsoll ")
	if !is {
		return false
	}
	rest, _, _ = strings.Cut(rest, "|")
	rest, _, _ = strings.Cut(rest, "#")
	root := rootCommand(genericiooptions.NewTestIOStreamsDiscard(), false)
	cmd, args, err := root.Find(strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(rest)))
	if err != nil {
		t.Errorf("%s: %s: %v", where, line, err)
		return true
	}
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(args); err != nil {
		t.Errorf("%s: %s: %v", where, line, err)
	}
	return true
}

// Documents have only commands and flags that exist.
func TestDocs_CommandsExist(t *testing.T) {
	root, checked := filepath.Join("..", "..", "docs"), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "decisions") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if checkLine(t, path, line) {
				checked++
			}
		}
		return err
	})
	if err != nil || checked < 8 {
		t.Errorf("%d lines of documents begin with kubectl plimsoll, want 8 or more: %v", checked, err)
	}
}

// The notes of the chart have only commands and flags of the client that exist, and none of the program for Linux.
func TestNotes_CommandsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "helm", "plimsoll", "templates", "NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(strings.ReplaceAll(string(text), "{{ $place }}", " --heartbeat-namespace=other")) {
		before, command, found := strings.Cut(line, ": ")
		command = strings.TrimSpace(command)
		switch {
		case !found || strings.Contains(before, "{{"):
		case checkLine(t, "NOTES.txt", command):
			checked++
		case strings.HasPrefix(command, "plimsoll "):
			t.Errorf("NOTES.txt: %s: is a command of the program for Linux", command)
		}
	}
	if checked < 8 {
		t.Errorf("%d commands of NOTES.txt are those of the client, want 8 or more", checked)
	}
}
