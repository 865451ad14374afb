// Package help writes the help texts of both programs. It has no text of a command, and adds the
// command help to a program.
package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// MaxColumns is the width of the lines that [Usage] writes.
const MaxColumns = 100

// Usage writes the part of a help text below the description. cobra's templates would link
// text/template, with which the linker removes no exported method. Returns the error of the output.
func Usage(cmd *cobra.Command) error {
	var b strings.Builder
	if cmd.Runnable() {
		fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	} else {
		fmt.Fprintf(&b, "Usage:\n  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	writeCommands(&b, cmd)
	own, connection := cmd.LocalNonPersistentFlags(), cmd.InheritedFlags()
	if !cmd.HasParent() {
		connection = cmd.PersistentFlags()
	}
	if own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsagesWrapped(MaxColumns))
	}
	if connection.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags of every command:\n%s", connection.FlagUsagesWrapped(MaxColumns))
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// writeCommands lists the commands below one, by their groups if there are any.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	groups := cmd.Groups()
	if len(groups) == 0 && cmd.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	width := 0
	for _, sub := range cmd.Commands() {
		width = max(width, len(sub.Name()))
	}
	for _, group := range groups {
		fmt.Fprintf(b, "\n%s\n", group.Title)
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group.ID && !sub.Hidden {
				fmt.Fprintf(b, "  %-*s  %s\n", width, sub.Name(), sub.Short)
			}
		}
	}
}

// Command returns the command help. That of cobra succeeds for a command that does not exist; this one
// returns what invalid makes of the error.
func Command(invalid func(error) error) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return invalid(fmt.Errorf("unknown command %q: %s help lists the commands", strings.Join(args, " "), root.DisplayName()))
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}
