// Package manpage renders the help of a program as a page for man(1), in the macros of man(7).
//
// Duties and invariants:
//
//   - A page has neither a date nor a version: the same commands give the same bytes.
//   - Nothing in the text of a help is a request or an escape of roff.
package manpage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page returns the page of a program with all of its commands. like has commands with the flags of another one, by their
// paths: flags that both have with the same meaning are written for the other one only.
func Page(root *cobra.Command, like map[string]string) []byte {
	p, commands := &page{like: like, sets: map[string]*pflag.FlagSet{}}, commandsOf(root)
	for _, c := range commands {
		p.sets[c.CommandPath()] = c.LocalNonPersistentFlags()
	}
	fmt.Fprintf(&p.b, ".TH %s 1 \"\" Plimsoll \"Plimsoll\"\n", strings.ToUpper(root.Name()))
	p.section("NAME")
	p.text(root.Name() + " - " + root.Short)
	p.section("SYNOPSIS")
	for _, c := range commands {
		fmt.Fprintf(&p.b, ".B %s\n%s\n.br\n", escaped(c.CommandPath()), escaped(strings.TrimPrefix(c.UseLine(), c.CommandPath()+" ")))
	}
	p.section("COMMANDS")
	for _, c := range commands {
		p.command(c)
	}
	if flags := root.PersistentFlags(); flags.HasAvailableFlags() {
		p.section("FLAGS OF EVERY COMMAND")
		p.flags(flags, nil)
	}
	p.section("SEE ALSO")
	p.text("https://plimsoll.dev/docs")
	return []byte(p.b.String())
}

type page struct {
	b    strings.Builder
	like map[string]string
	sets map[string]*pflag.FlagSet // by the paths of commands
}

// commandsOf returns the commands that run, in the order of the help.
func commandsOf(c *cobra.Command) (all []*cobra.Command) {
	if c.Runnable() && !c.HasSubCommands() && !c.Hidden && c.Name() != "help" {
		all = append(all, c)
	}
	for _, sub := range c.Commands() {
		all = append(all, commandsOf(sub)...)
	}
	return all
}

func (p *page) section(title string) { fmt.Fprintf(&p.b, ".SH %s\n", title) }

func (p *page) command(c *cobra.Command) {
	fmt.Fprintf(&p.b, ".SS %s\n", escaped(c.CommandPath()))
	p.text(strings.TrimSuffix(c.Short, ".") + ".")
	for block := range strings.SplitSeq(c.Long, "\n\n") {
		if block != "" {
			p.b.WriteString(".PP\n")
			p.text(block)
		}
	}
	other := p.like[c.CommandPath()]
	p.flags(p.sets[c.CommandPath()], p.sets[other])
	if other != "" {
		p.b.WriteString(".PP\n")
		p.text("Further flags are those of " + other + ".")
	}
	if c.HasExample() {
		p.b.WriteString(".PP\nExamples:\n.PP\n.EX\n")
		p.text(c.Example)
		p.b.WriteString(".EE\n")
	}
}

// flags writes a list of flags, without those that another list has.
func (p *page) flags(set, without *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if without != nil {
			if other := without.Lookup(f.Name); other != nil && other.Usage == f.Usage {
				return
			}
		}
		value, usage := pflag.UnquoteUsage(f)
		p.b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(&p.b, "\\fB\\-%s\\fR, ", escaped(f.Shorthand))
		}
		fmt.Fprintf(&p.b, "\\fB\\-\\-%s\\fR", escaped(f.Name))
		if value != "" {
			fmt.Fprintf(&p.b, "=\\fI%s\\fR", escaped(value))
		}
		p.b.WriteString("\n")
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		p.text(usage)
	})
}

// text writes lines of text.
func (p *page) text(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		p.b.WriteString(escaped(line) + "\n")
	}
}

// characters of roff, and those that it would print as others.
var characters = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escaped returns a line of text. A point at its begin would make it a request.
func escaped(line string) string {
	if line = characters.Replace(line); strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}
