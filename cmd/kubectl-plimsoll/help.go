package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// maxColumns is the width of a help text.
const maxColumns = 100

// writeUsage writes the part of a help text below the description. cobra's templates would link
// text/template, which keeps every exported method in the program.
func writeUsage(cmd *cobra.Command) error {
	var b strings.Builder
	if cmd.Runnable() {
		fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	} else {
		fmt.Fprintf(&b, "Usage:\n  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range cmd.Groups() {
		fmt.Fprintf(&b, "\n%s\n", group.Title)
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group.ID && !sub.Hidden {
				fmt.Fprintf(&b, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	connection := cmd.InheritedFlags()
	if !cmd.HasParent() {
		connection = cmd.PersistentFlags()
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalNonPersistentFlags().FlagUsagesWrapped(maxColumns))
	fmt.Fprintf(&b, "\nFlags of the connection, as in kubectl:\n%s", connection.FlagUsagesWrapped(maxColumns))
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// helpCommand returns the command help. That of cobra succeeds for commands that do not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		GroupID: groupOther,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return invalidError{fmt.Errorf("unknown command %q: kubectl plimsoll help lists the commands", strings.Join(args, " "))}
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}
