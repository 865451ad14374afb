package manpage

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program returns a program with texts that roff would interpret.
func program() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Does things"}
	root.PersistentFlags().String("context", "", "the `name` of it")
	a := &cobra.Command{Use: "a FILE", Short: "Reads a file", Run: run, Example: "  # One\n  tool a 'x' | jq '.y'\n.so /etc/passwd",
		Long: "First.\n\n.so /etc/passwd\n'so \\fB --flag"}
	a.Flags().StringP("output", "o", "text", "output format, -o")
	a.Flags().Bool("hidden", false, "not shown")
	a.Flags().Int("max", 0, "bound")
	if err := a.Flags().MarkHidden("hidden"); err != nil {
		panic(err)
	}
	b := &cobra.Command{Use: "b", Short: "As a.", Run: run}
	b.Flags().StringP("output", "o", "text", "output format, -o")
	b.Flags().Int("max", 0, "another bound")
	root.AddCommand(a, b, &cobra.Command{Use: "help", Run: run}, &cobra.Command{Use: "secret", Hidden: true, Run: run})
	return root
}

func TestPage_HasCommandsAndFlags(t *testing.T) {
	got := string(Page(program(), map[string]string{"tool b": "tool a"}))
	want := `.TH TOOL 1 "" Plimsoll "Plimsoll"
.SH NAME
tool \- Does things
.SH SYNOPSIS
.B tool a
FILE [flags]
.br
.B tool b
[flags]
.br
.SH COMMANDS
.SS tool a
Reads a file.
.PP
First.
.PP
\&.so /etc/passwd
\(aqso \efB \-\-flag
.TP
\fB\-\-max\fR=\fIint\fR
bound
.TP
\fB\-o\fR, \fB\-\-output\fR=\fIstring\fR
output format, \-o (default text)
.PP
Examples:
.PP
.EX
  # One
  tool a \(aqx\(aq | jq \(aq.y\(aq
\&.so /etc/passwd
.EE
.SS tool b
As a.
.TP
\fB\-\-max\fR=\fIint\fR
another bound
.PP
Further flags are those of tool a.
.SH FLAGS OF EVERY COMMAND
.TP
\fB\-\-context\fR=\fIname\fR
the name of it
.SH SEE ALSO
https://plimsoll.dev/docs
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A line is a request only if the package writes it.
func TestPage_TextIsNoRequest(t *testing.T) {
	requests := strings.Fields(".TH .SH .SS .PP .TP .B .br .EX .EE")
	for line := range strings.Lines(string(Page(program(), nil))) {
		first, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !slices.Contains(requests, first) {
			t.Errorf("a request: %s", line)
		}
	}
}
