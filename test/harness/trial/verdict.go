package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// Row is the result of all steps of a workload.
type Row struct {
	Workload     string
	Brink        bool
	Steps        int
	Crossed      int           // steps that crossed the threshold
	Under        time.Duration // in total
	MinAvailable int64         // minimum available in a step, in bytes
	MinHard      int64         // minimum available without page cache
	Periodic     int           // evictions by periodic checks
	Early        int           // evictions by early checks
	OOMKills     int64
	Regrets      int
	NotJudged    int // evictions by periodic checks, without a sample of what these found
	Exhausts     int // steps that continued beyond the limit
}

// evicted waits for the decision that ended the hog.
func (t *regretRun) evicted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := t.agent.Await(ctx, agent.Evicted)
	if err != nil {
		return fmt.Errorf("the hog ended in %q without a decision: %w", t.now.step.Order, err)
	}
	return t.classify(*d)
}

// classify counts an eviction or a failed attempt.
func (t *regretRun) classify(d agent.Decision) error {
	if d.Decision != agent.Evicted && d.Decision != agent.Failed {
		return nil
	}
	in, observed := &t.now, observation(&d)
	// The decision may be logged after the end of its step. A check that began before a step may observe it.
	if d.Time.Before(in.begun) && (observed.to.Before(in.begun) || in.isRegret(&d)) {
		in = &t.before
	}
	row := t.row(&in.step)
	if d.Pod == "default/innocent" && d.Decision == agent.Evicted {
		return fmt.Errorf("a pod within its request was evicted by a %s check in %q: %s; %v", d.Check, in.step.Order, d.Reason, d.Failed)
	}
	if d.Check == "periodic" {
		row.Periodic++
	} else {
		row.Early++
	}
	verdict := "no regret"
	switch regret := in.isRegret(&d); {
	case regret && d.Check == "periodic" && t.sampler.missed(observed):
		row.NotJudged++
		verdict = "not judged, the sampler was late"
	case regret:
		row.Regrets++
		verdict = "REGRET"
	}
	t.logf("%s: %s, %s check, in %q, %v after its begin, minimum available %d MiB, %d without page cache: %s", verdict, d.Decision, d.Check, in.step.Order,
		d.Time.Sub(in.begun).Round(time.Millisecond), in.seen.MinAvailable/mib, in.seen.MinHard/mib, d.Reason)
	if verdict == "REGRET" {
		encoded, err := json.Marshal(d)
		t.logf("the complete decision: %s", encoded)
		return err
	}
	return nil
}

// observation returns the time in which the check of a decision observed the node: until the kill, or until now.
func observation(d *agent.Decision) span {
	if d.KillTime == nil {
		return span{d.Time, time.Now()}
	}
	return span{d.Time, d.Time.Add(time.Duration(*d.KillTime * float64(time.Millisecond)))}
}

// ErrNotJudged reports that most evictions of a trial could not be judged.
var ErrNotJudged = errors.New("the sampler was late: repeat the trial on a machine with less load")

// checkJudged returns ErrNotJudged if most evictions could not be judged.
func checkJudged(rows []*Row) error {
	evictions, notJudged := 0, 0
	for _, r := range rows {
		evictions, notJudged = evictions+r.Periodic+r.Early, notJudged+r.NotJudged
	}
	if 2*notJudged > evictions {
		return fmt.Errorf("judge %d of %d evictions: %w", notJudged, evictions, ErrNotJudged)
	}
	return nil
}

// isRegret reports whether an eviction is a regret, see [Regret].
func (p *past) isRegret(d *agent.Decision) bool {
	if p.step.Exhausts {
		return false
	}
	return d.Check != "periodic" || p.seen.Under == 0
}

func (t *regretRun) row(s *Step) *Row {
	for _, r := range t.rows {
		if r.Workload == s.Workload {
			return r
		}
	}
	r := &Row{Workload: s.Workload, Brink: s.Brink, MinAvailable: t.Limit, MinHard: t.Limit}
	t.rows = append(t.rows, r)
	return r
}
