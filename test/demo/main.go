// Command demo shows an eviction on this machine, without a cluster. A sandbox
// cgroup is the node, four pods run in it as real processes, one of them leaks,
// and the real agent runs beside it.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"plimsoll.dev/plimsoll/test/demo/screen"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

//go:embed pods/*.yaml
var manifests embed.FS

// options are the demo's flags.
type options struct {
	plimsoll string // path of the binary
	period   time.Duration
	records  string // directory for the recording; empty: none
	rate     string // of the leak, per second
	limit    string // of the node
	color    string // auto, always or never
	output   string // text or json
	node     int64  // limit in bytes
	leak     int64  // rate in bytes per second
}

// threshold is the hard eviction threshold of the demo's node.
const threshold = 100 << 20

func main() {
	hog.RunIfSet()
	var o options
	flag.StringVar(&o.plimsoll, "plimsoll", "bin/plimsoll", "path of the plimsoll binary")
	flag.StringVar(&o.rate, "rate", "40MiB", "memory that the leaking pod allocates per second")
	flag.StringVar(&o.limit, "limit", "512MiB", "memory of the node, 400MiB to 2GiB")
	flag.DurationVar(&o.period, "period", 10*time.Second, "time between two periodic checks of the agent")
	flag.StringVar(&o.records, "recording", "", "directory for a recording of the agent; empty: none")
	flag.StringVar(&o.color, "color", "auto", "colours: auto, always or never; auto: on a terminal, unless NO_COLOR is set")
	flag.StringVar(&o.output, "o", "text", "output: text, or json for nothing but the result as a line of JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run shows the demo. Returns an error if the options are invalid, if the
// machine does not support the demo, or if another pod than the leaking one ended.
func run(ctx context.Context, stdout *os.File, o options) (err error) {
	s, err := o.open(stdout)
	if err != nil {
		return err
	}
	if missing := sandbox.Missing(); missing != nil {
		return fmt.Errorf("needs root and the memory controller of cgroups: %w\n"+
			"without them, simulate the same in virtual time:\n    bin/plimsoll simulate examples/scenarios/oom-between-checks.yaml", missing)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	e, err := newEnv(ctx, o, s)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	r, err := e.watch(ctx)
	s.End()
	if err != nil {
		return err
	}
	if o.output == "json" {
		err = json.NewEncoder(stdout).Encode(r)
	}
	return errors.Join(err, s.Err(), r.verdict(e.leaky().pod.Key()))
}

// open validates the options and returns the screen for them.
func (o *options) open(stdout *os.File) (*screen.Screen, error) {
	var err error
	o.rate, o.limit = withUnit(o.rate), withUnit(o.limit)
	if o.node, err = hog.ParseSize(o.limit); err != nil || o.node < 400<<20 || o.node > sandbox.MaxLimit {
		return nil, fmt.Errorf("-limit %s: use 400MiB to 2GiB: the demo's pods need 300MiB and the threshold 100MiB", o.limit)
	}
	if o.leak, err = hog.ParseSize(o.rate); err != nil || o.leak < 1<<20 {
		return nil, fmt.Errorf("-rate %s: use 1MiB or more per second", o.rate)
	}
	columns, _, notTerminal := term.GetSize(int(stdout.Fd()))
	terminal := notTerminal == nil
	colored, err := screen.Colored(o.color, terminal, os.Getenv("NO_COLOR"))
	if err != nil {
		return nil, err
	}
	show := screen.Options{Colored: colored, Live: terminal && columns >= screen.Columns, Capacity: o.node, Threshold: threshold}
	switch o.output {
	case "text":
		return screen.New(stdout, show), nil
	case "json":
		return screen.New(io.Discard, show), nil
	}
	return nil, fmt.Errorf("-o %s: use text or json", o.output)
}

// withUnit returns a bare number with the unit MiB, any other text as it is.
func withUnit(text string) string {
	if _, err := strconv.Atoi(text); err == nil {
		return text + "MiB"
	}
	return text
}
