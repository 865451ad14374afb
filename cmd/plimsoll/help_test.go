package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/help"
)

func TestHelp_OfUnknownCommandFails(t *testing.T) {
	for _, tc := range []struct {
		args      string
		status    int
		out, errs string
	}{
		{"help foo", exitInvalid, "", `unknown command "foo": plimsoll help lists the commands`},
		{"help simulate foo", exitInvalid, "", "unknown command"},
		{"help recording export", 0, "Usage:\n  plimsoll recording export", ""},
		{"help", 0, "\nCommands:\n", ""},
		{"--version", 0, "plimsoll version devel\n", ""},
	} {
		status, out, errs := plimsoll("", strings.Fields(tc.args)...)
		if status != tc.status || !strings.Contains(out, tc.out) || !strings.Contains(errs, tc.errs) || errs == "" != (tc.errs == "") {
			t.Errorf("plimsoll %s: status %d\n%s%s", tc.args, status, out, errs)
		}
	}
}

// Flags are wrapped.
func TestHelp_FitsTerminal(t *testing.T) {
	eachCommand(rootCommand(), func(c *cobra.Command) {
		_, out, _ := plimsoll("", append(strings.Fields(c.CommandPath())[1:], "--help")...)
		_, usage, _ := strings.Cut(out, "Usage:\n")
		_, flags, found := strings.Cut(usage, "\nFlags:\n")
		if !found || strings.Contains(usage, "Flags of every command") {
			t.Errorf("%s --help has no flags, or those of a connection:\n%s", c.CommandPath(), usage)
		}
		for line := range strings.Lines(flags) {
			if len(line) > help.MaxColumns+1 && strings.Contains(strings.TrimSpace(line), " ") { // a long default is one word
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), len(line), line)
			}
		}
	})
}
