// Command demo shows Plimsoll at work on this machine, without a cluster: a
// sandbox cgroup plays the node, four pods run in it as real processes, one of
// them leaks, and the real agent is started on it.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

//go:embed pods/*.yaml
var manifests embed.FS

// options are the demo's flags.
type options struct {
	plimsoll string // the agent's binary
	rate     string // of the leak, per second
	limit    string // of the node
	node     int64  // the limit in bytes
}

// threshold is the hard eviction threshold of the demo's node.
const threshold = 100 << 20

func main() {
	hog.RunIfAsked()
	var o options
	flag.StringVar(&o.plimsoll, "plimsoll", "bin/plimsoll", "the plimsoll binary")
	flag.StringVar(&o.rate, "rate", "150MiB", "how fast the leaking pod fills memory, per second")
	flag.StringVar(&o.limit, "limit", "512MiB", "memory of the node, 400MiB to 2GiB")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if missing := sandbox.Missing(); missing != nil {
		return fmt.Errorf("needs root and the memory controller of cgroups: %w\n"+
			"without them, rehearse the same in virtual time:\n    bin/plimsoll simulate examples/scenarios/oom-between-looks.yaml", missing)
	}
	o.rate, o.limit = withUnit(o.rate), withUnit(o.limit)
	if o.node, err = hog.ParseSize(o.limit); err != nil || o.node < 400<<20 || o.node > sandbox.MaxLimit {
		return fmt.Errorf("-limit %s: use 400MiB to 2GiB: the demo's pods need 300MiB and the threshold 100MiB", o.limit)
	}
	if rate, err := hog.ParseSize(o.rate); err != nil || rate < 1<<20 {
		return fmt.Errorf("-rate %s: use 1MiB or more a second", o.rate)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s, err := setScene(ctx, o)
	defer func() {
		if s != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err != nil {
		return err
	}
	return s.play(ctx)
}

// withUnit takes a bare number for MiB.
func withUnit(text string) string {
	if _, err := strconv.Atoi(text); err == nil {
		return text + "MiB"
	}
	return text
}
