package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// noStatus is the exit code of run if the command has no status: the machine did not start, or
// crashed.
const noStatus = 125

const usage = `usage: vm test [-m MIB] [-smp N] [-kernel SUITE] [-v] PACKAGE…
       vm run  [-m MIB] [-smp N] [-kernel SUITE] [-systemd [-suite SUITE] [-package NAME]…] [-put FILE]… [-output FILE] [-env NAME=VALUE]… [-limit TIME] -- COMMAND ARGUMENT…
       vm node [-m MIB] [-smp N] [-kernel SUITE] [-env NAME=VALUE]… [-limit TIME] PACKAGE [TEST FLAG…]
`

// options are the flags of both modes.
type options struct {
	memory  int // MiB
	cpus    int
	verbose bool
	console bool
	systemd bool   // boot a root file system
	kernel  string // Debian suite of the kernel
	release string // Debian suite of the root file system
	more    list   // packages of the root file system beside those of every one
	forward string // port of this machine's loopback that leads into the machine
	output  string // file that receives what the command writes to the machine's third disk
	limit   time.Duration
	put     list
	env     list
	args    []string
}

// list is a flag that can be given more than once.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

var modes = map[string]func(context.Context, *options) (int, error){"run": runCommand, "test": runTests, "node": runNode}

func main() {
	if len(os.Args) < 2 || modes[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	mode := os.Args[1]
	o := parse(mode, os.Args[2:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status, err := modes[mode](ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
	}
	os.Exit(status)
}

func parse(mode string, args []string) *options {
	o, memory := &options{systemd: mode == "node", release: release}, 2048
	if o.systemd {
		memory = 6144
	}
	flags := flag.NewFlagSet("vm "+mode, flag.ExitOnError)
	flags.IntVar(&o.memory, "m", memory, "memory of the machine in MiB")
	flags.IntVar(&o.cpus, "smp", 2, "processors of the machine")
	flags.StringVar(&o.kernel, "kernel", kernelSuite, "Debian suite of the kernel, such as bullseye")
	flags.BoolVar(&o.console, "console", false, "show the kernel's console at the end in every case")
	if mode == "test" {
		flags.BoolVar(&o.verbose, "v", false, "every test by name, as go test -v")
	} else {
		flags.Var(&o.put, "put", "a file for the command, at the same path in the machine")
		flags.Var(&o.env, "env", "NAME=VALUE for the command")
		flags.DurationVar(&o.limit, "limit", 30*time.Minute, "maximum duration of the command")
	}
	if mode == "run" {
		flags.BoolVar(&o.systemd, "systemd", false, "boot a root file system with systemd, as node does")
		flags.StringVar(&o.release, "suite", release, "with -systemd: Debian suite of the root file system")
		flags.Var(&o.more, "package", "with -systemd: a Debian package in the root file system, of which no service starts")
		flags.StringVar(&o.output, "output", "", "with -systemd: a file that receives what the command writes to "+wire.Output)
	}
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	_ = flags.Parse(args) // exits on error
	o.args = flags.Args()
	if len(o.args) == 0 {
		flags.Usage()
		os.Exit(2)
	}
	return o
}

// runCommand implements the mode run.
func runCommand(ctx context.Context, o *options) (int, error) {
	i, err := newImage()
	if err != nil {
		return noStatus, err
	}
	defer i.remove()
	if !o.systemd && (len(o.more) > 0 || o.release != release) {
		return noStatus, errors.New("-package and -suite need -systemd: without it the machine has no root file system")
	}
	if o.output != "" {
		if !o.systemd {
			return noStatus, errors.New("-output needs -systemd: without it the machine has no such disk")
		}
		if err := makeOutput(o.output); err != nil {
			return noStatus, err
		}
	}
	program, err := i.put(o.args[0])
	if err != nil {
		return noStatus, err
	}
	for _, name := range o.put {
		if _, err := i.put(name); err != nil {
			return noStatus, err
		}
	}
	plan := []wire.Command{{Args: append([]string{program}, o.args[1:]...), Env: o.env, Dir: here, Limit: o.limit}}
	v, err := i.boot(ctx, o, plan)
	if err != nil {
		return noStatus, err
	}
	err = v.Err()
	if errors.As(err, new(*wire.Incomplete)) {
		return noStatus, err
	}
	if status := v.Status(); status != 0 {
		return status, err
	}
	return 0, nil
}
