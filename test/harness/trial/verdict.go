package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// Row is the result of all steps of a workload.
type Row struct {
	Workload string
	Brink    bool
	Steps    int
	Crossed  int           // steps that crossed the threshold
	Under    time.Duration // in total
	Least    int64         // minimum available in a step, in bytes
	MinHard  int64         // minimum available without page cache
	Regular  int           // evictions by periodic checks
	Extra    int           // evictions by early checks
	OOMKills int64
	Regrets  int
	Doomed   int // steps that continued beyond the limit
}

// evicted waits for the decision that ended the hog.
func (t *regretting) evicted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := t.agent.Await(ctx, agent.Evicted)
	if err != nil {
		return fmt.Errorf("the hog has ended in %q, and nobody says why: %w", t.now.step.Order, err)
	}
	return t.judge(*d)
}

// judge counts an eviction or a failed attempt.
func (t *regretting) judge(d agent.Decision) error {
	if d.Decision != agent.Evicted && d.Decision != agent.Failed {
		return nil
	}
	in := &t.now
	if d.Time.Before(in.begun) { // logged after the end of the step
		in = &t.before
	}
	row := t.row(&in.step)
	if d.Pod == "default/innocent" && d.Decision == agent.Evicted {
		return fmt.Errorf("a pod within its request was evicted by a %s look in %q: %s; %v", d.Check, in.step.Order, d.Reason, d.Failed)
	}
	if d.Check == "periodic" {
		row.Regular++
	} else {
		row.Extra++
	}
	verdict := "no regret"
	if in.regrets(&d) {
		row.Regrets++
		verdict = "REGRET"
	}
	t.tell("%s: %s, %s look, in %q, %v after its begin, least left %d MiB, %d with the page cache: %s", verdict, d.Decision, d.Check, in.step.Order,
		d.Time.Sub(in.begun).Round(time.Millisecond), in.seen.Least/mib, in.seen.MinHard/mib, d.Reason)
	if in.regrets(&d) {
		whole, err := json.Marshal(d)
		t.tell("the whole decision: %s", whole)
		return err
	}
	return nil
}

// regrets reports whether an eviction is a regret, see [Regret].
func (p *past) regrets(d *agent.Decision) bool {
	if p.step.Doomed {
		return false
	}
	return d.Check != "periodic" || p.seen.Under == 0
}

func (t *regretting) row(s *Step) *Row {
	for _, r := range t.rows {
		if r.Workload == s.Workload {
			return r
		}
	}
	r := &Row{Workload: s.Workload, Brink: s.Brink, Least: t.Limit, MinHard: t.Limit}
	t.rows = append(t.rows, r)
	return r
}
