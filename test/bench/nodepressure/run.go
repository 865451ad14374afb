package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/arena"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/catalogue"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/referee"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

// options are the flags of a run.
type options struct {
	incidents, contestants string
	runs                   int
	seed                   uint64
	arena                  string
	expendable, proceed    bool
	node                   string
	scratch, out, machine  string
	finished               string
}

func (o *options) parse(args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	flags.StringVar(&o.incidents, "incidents", "", "names or files, separated by commas; empty: all of the catalogue")
	flags.StringVar(&o.contestants, "contestants", "", "names or files, separated by commas; empty: all of the catalogue")
	flags.IntVar(&o.runs, "runs", 10, "runs of each contestant in each incident")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the first run; the others follow it")
	flags.StringVar(&o.arena, "arena", spec.Cgroup, "the node: a cgroup with a limit, or the whole machine, which must be expendable")
	flags.BoolVar(&o.expendable, "expendable", false, "fill this machine although it has more than 2 GiB: only for a machine that nothing else uses")
	flags.StringVar(&o.node, "node", "", "memory of a node that is a cgroup, such as 256MiB; empty: that of each incident")
	flags.StringVar(&o.scratch, "scratch", "/var/tmp", "directory on a disk, for files of workloads")
	flags.StringVar(&o.out, "out", "", "folder for the results; -: standard output, a line each")
	flags.BoolVar(&o.proceed, "continue", false, "leave out runs of which the folder has a valid result already")
	flags.StringVar(&o.finished, "done", "", "leave out the runs that this file lists, as the command done prints them")
	flags.StringVar(&o.machine, "machine", "", "name of this machine in the results; empty: the host name")
	_ = flags.Parse(args) // exits on error
	if o.out == "" || flags.NArg() > 0 || o.runs < 1 || o.arena != spec.Cgroup && o.arena != spec.Machine {
		flags.Usage()
		return errUsage
	}
	return nil
}

// bench is a run of the benchmark.
type bench struct {
	options
	incidents   []catalogue.Incident
	contestants []catalogue.Contestant
	machine     result.Machine
	versions    map[string]string // by contestant
	failed      map[string]int    // runs in a row that failed, by contestant
	done        map[string]bool   // identities of runs that are not repeated
	perform     func(context.Context, cell, *result.Result) error
}

// revision is set by the linker.
var revision = "unknown"

func run(ctx context.Context, args []string) error {
	b := &bench{failed: map[string]int{}}
	b.perform = b.once
	if err := b.parse(args); err != nil {
		return err
	}
	if err := errors.Join(b.load(), b.loadDone()); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	return b.all(ctx)
}

func (b *bench) load() (err error) {
	if b.incidents, err = catalogue.Incidents(b.options.incidents); err != nil {
		return err
	}
	if b.contestants, err = catalogue.Contestants(b.options.contestants); err != nil {
		return err
	}
	if b.node == "" {
		return nil
	}
	size, err := spec.ParseBytes(b.node)
	if err != nil || size < spec.MinNode || size > spec.MaxNode {
		return fmt.Errorf("-node %s: want %d to %d MiB", b.node, spec.MinNode>>20, spec.MaxNode>>20)
	}
	for i := range b.incidents {
		b.incidents[i].Node = size
		b.incidents[i].Hash += "-" + spec.FormatBytes(size) // it is another incident
	}
	return nil
}

// loadDone reads which runs are not repeated.
func (b *bench) loadDone() (err error) {
	b.done = map[string]bool{}
	if b.proceed && b.out != "-" {
		if b.done, err = result.Done(b.out); err != nil {
			return err
		}
	}
	if b.finished == "" {
		return nil
	}
	text, err := os.ReadFile(b.finished)
	for line := range strings.Lines(string(text)) {
		b.done[strings.TrimSpace(line)] = true
	}
	return err
}

func (b *bench) prepare(ctx context.Context) error {
	layout, err := arena.Detect()
	if err != nil {
		return err
	}
	var contestants []spec.Contestant
	for _, c := range b.contestants {
		contestants = append(contestants, c.Contestant)
	}
	why, err := referee.Conflict(contestants)
	if err != nil {
		return err
	}
	if why != "" {
		return errors.New(why)
	}
	if err := arena.Sweep(); err != nil {
		return err
	}
	name := b.options.machine
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return err
		}
	}
	b.machine = result.Describe(name, layout.Version, arena.LowersScores())
	b.versions = map[string]string{}
	for _, c := range b.contestants {
		if referee.Unavailable(c.Contestant, b.arena, layout.Version) != "" {
			continue
		}
		if b.versions[c.Name], err = referee.Version(ctx, c.Contestant); err != nil {
			fmt.Fprintln(os.Stderr, "the version is unknown:", err)
		}
	}
	if b.arena == spec.Machine {
		if b.machine.Memory > spec.MaxNode && !b.expendable {
			return fmt.Errorf("this machine has %d MiB and would be filled: boot a virtual machine of at most %d MiB, or give -expendable",
				b.machine.Memory>>20, spec.MaxNode>>20)
		}
		if err := arena.Protect(); err != nil {
			return err
		}
	}
	return b.warm(ctx)
}

// warm touches as much memory as nodes have. A virtual machine fills memory that it never touched several
// times slower.
func (b *bench) warm(ctx context.Context) error {
	most := int64(0)
	for _, i := range b.incidents {
		most = max(most, i.Node)
	}
	free, err := gauge.Gauge{}.Now()
	if err != nil {
		return err
	}
	bytes := min(most, free/2)
	if b.arena == spec.Machine { // it is the node
		bytes = free / 10 * 8
	}
	return referee.Warm(ctx, bytes, b.scratch)
}

// maxFailures is the number of runs in a row that may fail before a contestant is left out.
const maxFailures = 3

// all performs the runs in rounds, in an order that differs from round to round, so that the noise of the
// machine hits all alike. What can not run is one result, with the reason. A run that fails is a result with
// its error, so that the report counts it. A contestant that fails again and again is left out, and does not
// end the others. Returns an error that names those left out. A run that leaves something behind ends the series.
func (b *bench) all(ctx context.Context) error {
	p := &progress{begin: time.Now(), runs: b.runs * len(b.cells())}
	for round := range b.runs {
		seed := b.seed + uint64(round)
		cells := b.cells()
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		for _, c := range cells {
			r := b.result(c, seed)
			r.Unavailable = c.unavailable(b.arena, b.machine.Cgroup)
			if r.Unavailable != "" && round > 0 || b.failed[c.contestant.Name] >= maxFailures || b.has(r) {
				p.runs--
				continue
			}
			var err error
			if r.Unavailable == "" {
				err = b.try(ctx, c, r)
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			if err := errors.Join(b.write(r, p), err); err != nil {
				return err
			}
		}
	}
	return b.leftOut()
}

// leftOut returns an error that names the contestants that were left out, or nil.
func (b *bench) leftOut() error {
	var names []string
	for name, n := range b.failed {
		if n >= maxFailures {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s left out after %d runs in a row that failed: their results name the causes", strings.Join(names, ", "), maxFailures)
}

// try performs a run. An error becomes the result, and after too many of them the contestant is left out. Returns
// the error of a run that leaves something behind.
func (b *bench) try(ctx context.Context, c cell, r *result.Result) (unclean error) {
	err := b.perform(ctx, c, r)
	if err == nil {
		b.failed[c.contestant.Name] = 0
		return nil
	}
	if errors.Is(err, referee.ErrUnclean) {
		unclean = err
	}
	reason := err.Error()
	if b.failed[c.contestant.Name]++; b.failed[c.contestant.Name] == maxFailures {
		reason = fmt.Sprintf("%d runs in a row failed and the others are left out: %v", maxFailures, err)
	}
	r.Observation, r.Score, r.Failed = nil, nil, shorten(reason)
	return unclean
}

// maxReason bounds a reason in bytes.
const maxReason = 500

func shorten(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "?")
}

// write writes and prints a result.
func (b *bench) write(r *result.Result, p *progress) error {
	if r.Score == nil {
		p.runs--
	} else {
		p.done++
	}
	if err := r.Write(b.out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", p.text(time.Now()), summary(r))
	return nil
}

// has reports whether there is a valid result of the same run already.
func (b *bench) has(r *result.Result) bool { return r.Unavailable == "" && b.done[r.Identity()] }

// progress counts runs.
type progress struct {
	begin      time.Time
	done, runs int
}

// text returns what is done, and about how long the rest takes.
func (p *progress) text(now time.Time) string {
	if p.done == 0 {
		return fmt.Sprintf("0/%d", p.runs)
	}
	left := now.Sub(p.begin) / time.Duration(p.done) * time.Duration(p.runs-p.done)
	return fmt.Sprintf("%d/%d, about %s left", p.done, p.runs, left.Round(time.Minute))
}

// cell is one incident with one contestant.
type cell struct {
	incident   catalogue.Incident
	contestant catalogue.Contestant
}

func (b *bench) cells() (all []cell) {
	for _, i := range b.incidents {
		for _, c := range b.contestants {
			all = append(all, cell{i, c})
		}
	}
	return all
}

func (c cell) unavailable(kind string, cgroup int) string {
	if why := referee.Unavailable(c.contestant.Contestant, kind, cgroup); why != "" {
		return why
	}
	return referee.Missing(c.incident.Incident)
}

func (b *bench) result(c cell, seed uint64) *result.Result {
	r := &result.Result{
		Format: result.Format, Started: time.Now().UTC().Truncate(time.Second), Machine: b.machine, Arena: b.arena, Seed: seed,
		Incident: result.Incident{
			Named:   result.Named{Name: c.incident.Name, Title: c.incident.Title, Hash: c.incident.Hash},
			Differs: c.incident.Differs, Cause: c.incident.Expect.Cause,
			Expect: score.Expect{Exhausts: c.incident.Expect.Exhausts, MayKill: c.incident.Expect.MayKill, Needed: c.incident.Expect.Needed},
		},
		Contestant: result.Contestant{
			Named: result.Named{Name: c.contestant.Name, Title: c.contestant.Title, Hash: c.contestant.Hash}, Version: b.versions[c.contestant.Name], Documented: c.contestant.Documented,
		},
		Benchmark: revision,
	}
	for _, s := range c.incident.Reenacts {
		r.Incident.Reenacts = append(r.Incident.Reenacts, s.Reference+": "+s.What)
	}
	return r
}

func (b *bench) once(ctx context.Context, c cell, r *result.Result) (err error) {
	scratch, err := filepath.Abs(b.scratch)
	if err != nil {
		return err
	}
	one := referee.Run{
		Incident: c.incident.Incident, Contestant: c.contestant.Contestant, Machine: b.arena == spec.Machine, Seed: r.Seed, Scratch: scratch,
	}
	log, err := gauge.OpenKernelLog()
	if err != nil {
		return err
	}
	defer log.Close()
	// A series that hangs measures nothing. Ended, it can be continued.
	hung := time.AfterFunc(one.Longest(), func() {
		failed := *r // the run may still write to r
		failed.Failed = fmt.Sprintf("no end after %v: the node or the referee hung", one.Longest())
		fmt.Fprintf(os.Stderr, "%s against %s, seed %d: %s\n", c.contestant.Name, c.incident.Name, r.Seed, failed.Failed)
		if err := failed.Write(b.out); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1) // the reaper removes what is left
	})
	r.Observation, err = one.Do(ctx)
	hung.Stop()
	r.KernelLog = log.Kills()
	if err != nil {
		return fmt.Errorf("%s against %s, seed %d: %w", c.contestant.Name, c.incident.Name, r.Seed, err)
	}
	s := score.Of(r.Incident.Expect, r.Observation)
	r.Score = &s
	return nil
}

func summary(r *result.Result) string {
	text := r.Contestant.Name + " against " + r.Incident.Name + ": "
	switch {
	case r.Failed != "":
		return text + "failed: " + r.Failed
	case r.Score == nil:
		return text + "not run: " + r.Unavailable
	}
	text += string(r.Score.Verdict)
	if r.Score.Why != "" {
		text += ", " + r.Score.Why
	}
	return fmt.Sprintf("%s; least left %s", text, spec.FormatBytes(r.Score.Least))
}
