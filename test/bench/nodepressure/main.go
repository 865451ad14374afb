// Node-pressure-bench measures how well a node survives pressure on its memory, with any program or none
// in charge of it.
//
//	node-pressure-bench run [-incidents LIST] [-contestants LIST] [-runs N] [-seed N] [-arena cgroup|machine] [-continue] [-done FILE] -out FOLDER
//	node-pressure-bench report -in FOLDER [-again FOLDER] [-horizon CONTESTANT=TIME] [-html FILE] [-markdown FILE] [-picture FILE]
//	node-pressure-bench show FILE…
//	node-pressure-bench compare FILE FILE
//	node-pressure-bench done -in FOLDER
//	node-pressure-bench collect -out FOLDER < OUTPUT
//	node-pressure-bench list
//
// The files of incidents and contestants are in the folder catalogue. docs/how-to/node-pressure-bench.md
// describes how to run it and how to add a contestant.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/catalogue"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/report"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/role"
)

// commands of the program.
var commands = map[string]func(context.Context, []string) error{
	"run": run, "report": writeReport, "show": show, "compare": compare, "collect": collect, "done": done, "list": list,
}

var errUsage = errors.New("usage: node-pressure-bench run | report | show FILE… | compare FILE FILE | collect | done | list, each with -help")

func main() {
	role.RunIfAsked()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, errUsage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := commands[os.Args[1]](ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node-pressure-bench:", err)
		os.Exit(1)
	}
}

func writeReport(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("report", flag.ExitOnError)
	in := flags.String("in", "", "folder with results")
	again := flags.String("again", "", "folder with repetitions of some of these results, for a table of the noise")
	horizon := flags.String("horizon", "", "CONTESTANT=TIME: for a table of what a contestant left that acts when memory lasts for less than this time")
	html := flags.String("html", "", "page to write")
	markdown := flags.String("markdown", "", "table to write")
	picture := flags.String("picture", "", "picture of the verdicts to write, as SVG")
	_ = flags.Parse(args) // exits on error
	if *in == "" || *html == "" && *markdown == "" && *picture == "" {
		flags.Usage()
		return errUsage
	}
	results, err := result.Read(*in)
	if err != nil {
		return err
	}
	r := report.New(results)
	if *again != "" {
		repetitions, err := result.Read(*again)
		if err != nil {
			return err
		}
		r.Pairs = report.Pairs(results, repetitions)
	}
	if *horizon != "" {
		if r.Margin, err = report.ParseMargin(*horizon, results); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{*html, r.HTML}, {*markdown, r.Markdown}, {*picture, r.Picture}} {
		if file.name != "" {
			err = errors.Join(err, create(file.name, file.write))
		}
	}
	return err
}

// show prints what happened in single runs.
func show(_ context.Context, files []string) error {
	if len(files) == 0 {
		return errUsage
	}
	for _, name := range files {
		r, err := result.ReadFile(name)
		if err != nil {
			return err
		}
		if err := report.Timeline(os.Stdout, r); err != nil {
			return err
		}
	}
	return nil
}

// compare prints the figures of two runs beside each other.
func compare(_ context.Context, files []string) error {
	if len(files) != 2 {
		return errUsage
	}
	a, err := result.ReadFile(files[0])
	if err != nil {
		return err
	}
	b, err := result.ReadFile(files[1])
	if err != nil {
		return err
	}
	return report.Compare(os.Stdout, a, b)
}

// done prints the identities of valid runs, for run -done on a machine that does not have the folder.
func done(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("done", flag.ExitOnError)
	in := flags.String("in", "", "folder with results")
	_ = flags.Parse(args) // exits on error
	if *in == "" {
		flags.Usage()
		return errUsage
	}
	runs, err := result.Done(*in)
	for _, one := range slices.Sorted(maps.Keys(runs)) {
		fmt.Println(one)
	}
	return err
}

func create(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func collect(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("collect", flag.ExitOnError)
	out := flags.String("out", "", "folder for the results")
	_ = flags.Parse(args) // exits on error
	if *out == "" {
		flags.Usage()
		return errUsage
	}
	n, err := result.Collect(os.Stdin, os.Stdout, *out)
	fmt.Fprintf(os.Stderr, "%d results in %s\n", n, *out)
	return err
}

func list(context.Context, []string) error {
	incidents, err := catalogue.Incidents("")
	if err != nil {
		return err
	}
	contestants, err := catalogue.Contestants("")
	if err != nil {
		return err
	}
	for _, i := range incidents {
		fmt.Printf("incident    %-24s %s\n", i.Name, i.Title)
	}
	for _, c := range contestants {
		fmt.Printf("contestant  %-24s %s\n", c.Name, c.Title)
	}
	return nil
}
