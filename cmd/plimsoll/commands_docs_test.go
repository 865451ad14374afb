package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/test/harness/generated"
	"plimsoll.dev/plimsoll/test/harness/manpage"
)

var update = flag.Bool("update", false, "write the generated part of docs/reference/commands.md instead of comparing it")

// TestReference_Commands compares the generated part of docs/reference/commands.md with the
// commands and their flags.
func TestReference_Commands(t *testing.T) {
	var b bytes.Buffer
	eachCommand(rootCommand(), func(c *cobra.Command) { writeUsage(&b, c) })
	generated.Compare(t, filepath.Join("..", "..", "docs", "reference", "commands.md"), *update,
		generated.Part{Begin: "<!-- begin flags: made by make docs -->\n", End: "<!-- end flags -->\n", Text: b.Bytes()})
}

// TestReference_Man compares docs/man/plimsoll.1 with the help.
func TestReference_Man(t *testing.T) {
	text := manpage.Page(rootCommand(), map[string]string{"plimsoll doctor": "plimsoll agent"})
	generated.Compare(t, filepath.Join("..", "..", "docs", "man", "plimsoll.1"), *update, generated.Part{Begin: ".\\\" begin page\n", End: ".\\\" end page\n", Text: text})
}

// writeUsage writes the usage of a command and a table of its flags. Options of agent
// and controller are left out: docs/reference/configuration.md has them.
func writeUsage(b *bytes.Buffer, c *cobra.Command) {
	if !c.Runnable() || c.Hidden || c.HasSubCommands() {
		return
	}
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	fmt.Fprintf(b, "\n### %s\n\n    %s\n\n%s.\n", c.CommandPath(), c.UseLine(), strings.TrimSuffix(c.Short, "."))
	rows := ""
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
		case f.Name != "config" && slices.Contains([]string{"agent", "controller", "doctor"}, c.Name()) && isOption(f.Name):
		default:
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			_, usage := pflag.UnquoteUsage(f)
			rows += fmt.Sprintf("| `%s` | `%s` | %s |\n", name, cell.Replace(f.DefValue), cell.Replace(usage))
		}
	})
	if rows != "" {
		fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s", strings.ReplaceAll(rows, "| `` |", "| |"))
	}
}

// isOption reports whether docs/reference/configuration.md has a flag.
func isOption(name string) bool {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "configuration.md"))
	return err == nil && (bytes.Contains(text, []byte("`--"+name+"=")) || bytes.Contains(text, []byte("`--"+name+"`")) || bytes.Contains(text, []byte("`-"+name+" ")))
}
