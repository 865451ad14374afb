package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/test/harness/trial"
)

const mib = 1 << 20

// The node of the fills: a threshold 100 MiB below the limit.
const (
	fillLimit     = 1 << 30
	fillThreshold = 100 * mib
)

var modes = []struct {
	name string
	args []string
}{
	{"Plimsoll", nil},
	{"10 s checks only", []string{"--early-eviction=never"}},
}

// fills races hogs of every rate against the agent in every mode.
func fills(ctx context.Context, o options) error {
	fmt.Printf("\n## Fills: node of 1 GiB, memory.available<100Mi, %d runs a row\n\n", o.runs)
	fmt.Println("| rate | mode | rate reached, MiB/s: median (most) | saved | kernel OOM kills | evicted by a periodic check | crossing to killed, median (max) | check to killed, median | early |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, rate := range o.rates {
		for _, mode := range modes {
			row, err := series(ctx, o, rate, mode.args)
			if err != nil {
				return err
			}
			fmt.Printf("| %s | %s | %s |\n", rateName(rate), mode.name, row)
		}
	}
	return nil
}

func rateName(rate int64) string {
	if rate == 0 {
		return "as fast as it goes"
	}
	return fmt.Sprintf("%d MiB/s", rate)
}

// series runs fills of one rate in one mode. early counts evictions by an early check with a
// time to exhaustion above the horizon of 500 ms; it must be 0.
func series(ctx context.Context, o options, rate int64, args []string) (row string, err error) {
	var saved, ooms, regular, early int
	var toKilled, checkToExit []time.Duration
	var seen []int64
	for range o.runs {
		f := trial.Fill{
			Binary: o.plimsoll, Limit: fillLimit, Threshold: fillThreshold, Rate: rate * mib, Args: args,
			Wait: rand.N(10 * time.Second), // the phase of the periodic checks
		}
		r, err := runFill(ctx, f)
		if err != nil {
			return "", err
		}
		if r.Saved() {
			saved++
			if r.ToKilled > 0 {
				toKilled = append(toKilled, r.ToKilled)
			}
			checkToExit = append(checkToExit, r.CheckToExit)
			seen = append(seen, r.Rate/mib)
		}
		ooms += int(r.OOMKills)
		if r.Check == "periodic" {
			regular++
		}
		if r.Early() {
			early++
		}
	}
	return fmt.Sprintf("%s | %d/%d | %d | %d | %s (%s) | %s | %d", middle(seen), saved, o.runs, ooms, regular,
		median(toKilled), most(toKilled), median(checkToExit), early), nil
}

func runFill(ctx context.Context, f trial.Fill) (trial.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return f.Run(ctx)
}

func median(ds []time.Duration) string {
	if len(ds) == 0 {
		return "-"
	}
	slices.Sort(ds)
	return round(ds[len(ds)/2])
}

// middle returns the median and the maximum of the observed rates.
func middle(rates []int64) string {
	if len(rates) == 0 {
		return "-"
	}
	slices.Sort(rates)
	return fmt.Sprintf("%d (%d)", rates[len(rates)/2], rates[len(rates)-1])
}

func most(ds []time.Duration) string {
	if len(ds) == 0 {
		return "-"
	}
	return round(slices.Max(ds))
}

func round(d time.Duration) string {
	if d > time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
