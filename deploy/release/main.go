// Release makes a release of Plimsoll from a clone: the programs, the image, the chart, what they are made of, and what
// they were built from. It needs neither network nor registry, and the same commit gives the same bytes. RELEASING.md has the order of the steps.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"
)

const usage = `usage: release COMMAND [FLAGS]

  set      write a version wherever the tree has one, and its section of the changelog
  build    build a release into an empty directory
  chart    package the chart alone
  notice   write the licences of the modules that are linked

release COMMAND -h lists the flags of a command.
`

// commands has the function of each command, which defines and parses its flags.
var commands = map[string]func(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error{
	"set": setCommand, "build": buildCommand, "chart": chartCommand, "notice": noticeCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("no such command")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errUsage
	}
	return commands[args[0]](ctx, flag.NewFlagSet("release "+args[0], flag.ContinueOnError), args[1:], out)
}

// addTree defines the flag for the root of the tree.
func addTree(flags *flag.FlagSet) *tree {
	t := &tree{programs: programs, places: places}
	flags.StringVar(&t.root, "root", "../..", "the `DIRECTORY` of the clone")
	return t
}

func setCommand(_ context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	t := addTree(flags)
	version := flags.String("version", "", "the `VERSION` of the release")
	date := flags.String("date", "", "the `DATE` of a new section of the changelog, as 2026-11-21")
	if err := flags.Parse(args); err != nil {
		return err
	}
	changed, err := t.set(*version, *date)
	for _, file := range changed {
		fmt.Fprintln(out, "changed:", file)
	}
	return err
}

func buildCommand(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	o := order{tree: addTree(flags)}
	flags.StringVar(&o.out, "out", "", "an empty `DIRECTORY` for the release")
	flags.StringVar(&o.version, "version", "", "the `VERSION` of the tree")
	flags.StringVar(&o.tag, "tag", "", "the `TAG` of the commit, which must name the version; empty: it has none yet")
	flags.StringVar(&o.revision, "revision", "", "the `COMMIT` of the tree")
	flags.StringVar(&o.image, "image", "registry.plimsoll.dev/plimsoll", "the `NAME` of the image without a tag")
	flags.StringVar(&o.chart, "chart", "registry.plimsoll.dev/charts/plimsoll", "the `NAME` of the chart in a registry")
	flags.StringVar(&o.builder, "builder", "", "the `URI` of the workflow that runs this command, for the provenance; empty: a person")
	flags.StringVar(&o.ldflags, "ldflags", "", "`FLAGS` of the linker, which set version and commit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.readTime(); err != nil {
		return err
	}
	images, err := o.build(ctx)
	for _, i := range images {
		fmt.Fprintln(out, i)
	}
	return err
}

func chartCommand(_ context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	o := order{tree: addTree(flags)}
	flags.StringVar(&o.out, "out", "", "`DIRECTORY` to write to")
	flags.StringVar(&o.version, "version", "", "the `VERSION` of the tree")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.readTime(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	digest, err := o.writeChart()
	if err == nil {
		fmt.Fprintln(out, o.file("-chart.tar"), digest)
	}
	return err
}

// readTime takes the time of the release from SOURCE_DATE_EPOCH.
func (o *order) readTime() error {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("read SOURCE_DATE_EPOCH %q: %w: set it to the commit's time, as git log -1 --format=%%ct prints it", epoch, err)
	}
	o.created = time.Unix(seconds, 0).UTC()
	return nil
}

func noticeCommand(ctx context.Context, flags *flag.FlagSet, args []string, _ io.Writer) error {
	t := addTree(flags)
	file := flags.String("out", "", "the `FILE` to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := t.notice(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(*file, text, 0o644)
}
