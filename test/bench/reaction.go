package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reactionFlags are the flags of the races beyond -plimsoll, -runs and -rates.
type reactionFlags struct {
	modes, margins, spinners string
	nodeKind                 string
	out                      string
	earlyoom                 string
	every                    time.Duration
}

func (f *reactionFlags) register(set *flag.FlagSet) {
	set.StringVar(&f.modes, "modes", "", "contenders, of "+strings.Join(contenderNames(), ", ")+"; empty: all that can race in the arena")
	set.StringVar(&f.margins, "margins", "100,10", "of the races: what must be available, in MiB")
	set.StringVar(&f.spinners, "spinners", "0", "of the races: busy loops beside the node, such as 0,4,8")
	set.StringVar(&f.nodeKind, "arena", "cgroup", "of the races: kind of the node, "+strings.Join(nodeKindNames(), " or "))
	set.StringVar(&f.out, "out", "", "file to which every race is appended as a line of JSON; - writes them between the rows")
	set.StringVar(&f.earlyoom, "earlyoom", "bin/earlyoom", "the earlyoom binary")
	set.DurationVar(&f.every, "every", 100*time.Microsecond, "interval between readings of usage in a race")
}

// group is all races of one table.
type group struct {
	nodeKind *nodeKind
	margin   int64 // bytes
	spinners int
}

// reaction races hogs of every rate against every mode. It reports the killed pod, the killer,
// and the time since the crossing.
func reaction(ctx context.Context, o options) (err error) {
	groups, modes, err := o.reaction.parse()
	if err != nil {
		return err
	}
	if err := available(ctx, o.plimsoll, modes); err != nil {
		return err
	}
	out, err := o.reaction.results()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	fmt.Fprintf(os.Stderr, "%d tables, %d rates, %d modes, %d runs each: about %s\n",
		len(groups), len(o.rates), len(modes), o.runs, estimate(groups, modes, o).Round(time.Second))
	for _, h := range groups {
		if err := h.run(ctx, o, modes, json.NewEncoder(out)); err != nil {
			return err
		}
	}
	fmt.Println("\nTime from SIGKILL to freed memory, with and without process_mrelease: `go test ./internal/kill -run '^$' -bench MemoryFreed`.")
	return nil
}

// results opens the destination of the JSON lines. Returns an error if the file can not be
// created.
func (f *reactionFlags) results() (io.WriteCloser, error) {
	switch f.out {
	case "":
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case "-":
		return os.Stdout, nil
	}
	return os.OpenFile(f.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// parse converts the flags to tables, contended ones last.
func (f *reactionFlags) parse() (groups []group, modes []contender, err error) {
	a, err := nodeKindNamed(f.nodeKind)
	if err != nil {
		return nil, nil, err
	}
	margins, err := numbers("margins", f.margins, 1)
	if err != nil {
		return nil, nil, err
	}
	spinners, err := numbers("spinners", f.spinners, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range spinners {
		for _, m := range margins {
			groups = append(groups, group{a, m * mib, int(s)})
		}
	}
	modes, err = a.contenders(f.modes)
	return groups, modes, err
}

// contenders returns the named contenders, or all that can race in the arena.
func (a *nodeKind) contenders(names string) (chosen []contender, err error) {
	can := slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return c.nodeKind != "" && c.nodeKind != a.name })
	if names == "" {
		return can, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(can, func(c contender) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-modes %s: use %s; earlyoom watches the whole machine, so it requires -arena %s, in a virtual machine",
				name, strings.Join(contenderNames(), ", "), machine.name)
		}
		chosen = append(chosen, can[i])
	}
	return chosen, nil
}

func numbers(flag, list string, least int64) (ns []int64, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < least {
			return nil, fmt.Errorf("-%s %s: use numbers of at least %d", flag, text, least)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

// setUp is the approximate overhead of a race besides waiting and filling: creating the node,
// filling most of it, starting and stopping the contender.
const setUp = 2 * time.Second

// estimate returns the approximate duration of all races.
func estimate(groups []group, modes []contender, o options) (total time.Duration) {
	for range groups {
		for _, m := range modes {
			for _, rate := range o.rates {
				one := setUp + m.phase/2
				if rate > 0 {
					one += time.Duration(float64(runUp(rate*mib)+fillThreshold) / float64(rate*mib) * float64(time.Second))
				}
				total += time.Duration(o.runs) * one
			}
		}
	}
	return total
}

// run races a table and prints it row by row.
func (h group) run(ctx context.Context, o options, modes []contender, out *json.Encoder) error {
	h.header(os.Stdout, o.runs)
	var lost []result
	for _, rate := range o.rates {
		for _, m := range modes {
			runs := make([]result, 0, o.runs)
			for range o.runs {
				r, err := h.once(ctx, o, m, rate)
				if err != nil {
					return fmt.Errorf("%s at %s: %w", m.name, rateName(rate), err)
				}
				if err := out.Encode(r); err != nil {
					return fmt.Errorf("write a line of -out: %w", err)
				}
				runs = append(runs, r)
				if r.Outcome != saved && m.promises {
					lost = append(lost, r)
				}
			}
			fmt.Printf("| %s | %s | %s |\n", rateName(rate), m.name, row(runs))
		}
	}
	explain(os.Stdout, lost)
	return nil
}

func (h group) once(ctx context.Context, o options, m contender, rate int64) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return race{
		group: h, contender: m, plimsoll: o.plimsoll, earlyoom: o.reaction.earlyoom, rate: rate * mib, every: o.reaction.every,
		wait: minWait + rand.N(m.phase),
	}.run(ctx)
}
