// Command bench measures the agent against real processes on this machine: races for memory,
// false alarms, and the cost of watching. It prints the tables of
// docs/internals/measurements.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// options are the flags.
type options struct {
	plimsoll string
	runs     int
	dips     int
	idle     time.Duration
	idleRuns int
	cgroups  int
	rates    []int64 // of the fills, MiB a second
	reaction reactionFlags
	regret   time.Duration
	seed     uint64
	disk     bool
	brinks   bool
}

// measurements lists the measurements in the order of execution.
var measurements = []struct {
	name string
	run  func(context.Context, options) error
}{
	{"fills", fills},
	{"alarms", alarms},
	{"idle", idle},
	{"parked", parked},
	{"recorder", recorder},
	{"reaction", reaction},
	{"regret", regret},
}

func main() {
	hog.RunIfSet()
	runRoleIfSet()
	var o options
	var only, rates string
	flag.StringVar(&o.plimsoll, "plimsoll", "bin/plimsoll", "the plimsoll binary")
	flag.IntVar(&o.runs, "runs", 10, "fills for each rate and mode")
	flag.IntVar(&o.dips, "dips", 100, "dips")
	flag.DurationVar(&o.idle, "idle", time.Minute, "duration of each measurement of idle cost")
	flag.IntVar(&o.idleRuns, "idle-runs", 5, "how often it is")
	flag.IntVar(&o.cgroups, "cgroups", 1000, "cgroups on the node with many cgroups")
	flag.DurationVar(&o.regret, "regret", time.Hour, "duration of the workloads close to the limit")
	flag.Uint64Var(&o.seed, "seed", 1, "of what they do")
	flag.BoolVar(&o.disk, "disk", true, "also workloads that write and read files")
	flag.BoolVar(&o.brinks, "brinks", false, "also dips with less than the reserve available, which no observer can distinguish from imminent exhaustion")
	flag.StringVar(&rates, "rates", "5,20,50,200,500,0", "rates of the fills in MiB a second, 0 is as fast as the machine fills")
	flag.StringVar(&only, "only", "fills,alarms,idle,parked", "which measurements")
	o.reaction.register(flag.CommandLine)
	flag.Parse()
	for text := range strings.SplitSeq(rates, ",") {
		rate, err := strconv.ParseInt(text, 10, 64)
		if err != nil || rate < 0 {
			fmt.Fprintf(os.Stderr, "bench: -rates %s: use numbers of MiB a second\n", rates)
			os.Exit(2)
		}
		o.rates = append(o.rates, rate)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, strings.Split(only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, only []string) error {
	if err := sandbox.Missing(); err != nil {
		return err
	}
	if err := sandbox.Sweep(""); err != nil {
		return err
	}
	defer func() { _ = sandbox.CloseAll() }()
	// Memory that a virtual machine has never touched fills slowly.
	touched, err := warmth()
	if err != nil {
		return err
	}
	if _, err := sandbox.Warm(ctx, touched); err != nil {
		return err
	}
	for _, m := range measurements {
		for _, name := range only {
			if name != m.name {
				continue
			}
			if err := m.run(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return nil
}
