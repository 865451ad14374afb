package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"plimsoll.dev/plimsoll/test/harness/trial"
)

// regretLimit is the memory of the node with workloads close to it.
const regretLimit = 768 * mib

// regret measures evictions by the agent in cases where the kernel would not have killed. The
// rules of that judgement are documented at trial.Regret. After an interrupt it prints the
// results so far.
func regret(ctx context.Context, o options) error {
	r := trial.Regret{
		Binary: o.plimsoll, Limit: regretLimit, For: o.regret, MaxHold: 8 * time.Second, Seed: o.seed, Disk: o.disk, Brinks: o.brinks,
		Log: func(what string) { fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), what) },
	}
	begin := time.Now()
	rows, gap, err := r.Run(ctx)
	fmt.Printf("\n## No regret: node of %d MiB, memory.available<100Mi, seed %d, %s\n\n", regretLimit/mib, o.seed, time.Since(begin).Round(time.Second))
	fmt.Println("| workload | steps | of them beyond the limit | below the threshold | time below it | least left, MiB (without page cache) | evicted by a periodic check | by an early check | kernel OOM kills | regrets |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	var all, brink trial.Row
	notJudged := 0
	for _, row := range rows {
		fmt.Printf("| %s | %d | %d | %d | %s | %d (%d) | %d | %d | %d | %d |\n", row.Workload, row.Steps, row.Exhausts, row.Crossed,
			row.Under.Round(time.Second), row.MinAvailable/mib, row.MinHard/mib, row.Periodic, row.Early, row.OOMKills, row.Regrets)
		into := &all
		if row.Brink {
			into = &brink
		}
		into.Steps, into.Regrets = into.Steps+row.Steps, into.Regrets+row.Regrets
		notJudged += row.NotJudged
	}
	fmt.Printf("\n%d regrets in %d steps", all.Regrets, all.Steps)
	if brink.Steps > 0 {
		fmt.Printf(", and %d in %d that no observer can distinguish from imminent exhaustion", brink.Regrets, brink.Steps)
	}
	fmt.Printf("; %d evictions were not judged, because the sampler was late; the maximum time between two samples was %s.\n", notJudged, round(gap))
	if errors.Is(err, context.Canceled) && !errors.Is(err, trial.ErrNotJudged) {
		return nil
	}
	return err
}
