// Command lifecycle measures the controller beside Kubernetes' own node lifecycle and taint
// eviction controllers. Each runs in a process of its own before the same simulated cluster
// (test/harness/fakeapiserver). Then it measures the controller alone, before a cluster of
// thirty times the nodes that Kubernetes supports. It prints the tables of
// docs/internals/measurements.md.
//
// Beside each other: every contender is measured whole, and once more with nothing behind the
// code that receives objects. For upstream that code is its shared informers with their stores;
// for Plimsoll it is its reflectors with a store that drops everything. So "without decoding"
// is the small remainder for upstream, and all of Plimsoll's own work. Processor time is that
// of the process by the kernel's clock; allocations are as the process reports them. An idle
// minute has the heartbeats of a healthy cluster and nothing else. It begins with a garbage
// collection; if few follow, as in a large heap, their cost is left out. The cost of one more
// renewal is the difference between that minute and one with many more renewals.
//
// Alone: kubelets, reflectors and controller are one process, and objects are passed without
// being encoded. The cost of kubelets and reflectors is measured before.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// options are the flags.
type options struct {
	upstream string // the program with Kubernetes' controllers
	out      string // file for a line of JSON for each measurement

	sizes  []int
	images int
	pods   int
	runs   int
	settle time.Duration
	window time.Duration
	busy   int // renewals a second in the busy window
	kill   int

	vast       []int
	vastPods   int
	vastWindow time.Duration
	profile    string // file for a CPU profile of the busy window
}

// measurements lists the measurements in the order of execution.
var measurements = []struct {
	name string
	run  func(context.Context, *options) error
}{
	{"beside", beside},
	{"vast", vast},
}

func main() {
	var o options
	var sizes, vastSizes, only, role, kubeconfig string
	flag.StringVar(&o.upstream, "upstream", "bin/upstream", "the program that runs Kubernetes' controllers")
	flag.StringVar(&o.out, "out", "", "file to which a line of JSON is added for each measurement")
	flag.StringVar(&sizes, "nodes", "1000,5000,15000", "sizes of the cluster")
	flag.IntVar(&o.images, "images", 30, "images on each node")
	flag.IntVar(&o.pods, "pods", 30, "pods on each node")
	flag.IntVar(&o.runs, "runs", 3, "how often each row is measured")
	flag.DurationVar(&o.settle, "settle", 15*time.Second, "idle time of a program before its measurement")
	flag.DurationVar(&o.window, "window", time.Minute, "how long it is measured")
	flag.IntVar(&o.busy, "busy", 5000, "renewals a second in the window from which the cost of one is found")
	flag.IntVar(&o.kill, "kill", 10, "nodes that stop at the end; 0: none")
	flag.StringVar(&vastSizes, "vast", "1000,5000,15000,150000", "sizes of the clusters that Plimsoll alone is measured with")
	flag.IntVar(&o.vastPods, "vast-pods", 0, "pods on each of them")
	flag.DurationVar(&o.vastWindow, "vast-window", time.Minute, "how long it is measured with them")
	flag.StringVar(&o.profile, "cpuprofile", "", "file for a profile of the controller in the vast window, by go tool pprof")
	flag.StringVar(&only, "only", "beside,vast", "which measurements")
	flag.StringVar(&role, "role", "", "what this program is to another one of its kind; not for people")
	flag.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the program's API server")
	flag.Parse()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go's messages about ended watches
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := o.parse(sizes, vastSizes)
	switch {
	case err != nil:
	case role != "":
		err = play(ctx, role, kubeconfig)
	default:
		err = run(ctx, &o, strings.Split(only, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lifecycle:", err)
		os.Exit(1)
	}
}

func (o *options) parse(sizes, vastSizes string) (err error) {
	if o.sizes, err = numbers(sizes); err != nil {
		return fmt.Errorf("-nodes %w", err)
	}
	if o.vast, err = numbers(vastSizes); err != nil {
		return fmt.Errorf("-vast %w", err)
	}
	if o.runs < 1 || o.window <= 0 || o.vastWindow <= 0 || o.pods < 1 || o.images < 0 || o.vastPods < 0 {
		return errors.New("-runs, -pods and windows must be positive, all others not negative")
	}
	return nil
}

func numbers(texts string) (all []int, err error) {
	for text := range strings.SplitSeq(texts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: use numbers of nodes, separated by commas", texts)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(ctx context.Context, o *options, only []string) error {
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

// pass waits for d. Returns the error of ctx if ctx ends first.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
