package wire

import (
	"errors"
	"fmt"
)

// Incomplete reports an unknown end of the plan: the machine crashed, hung or violated the
// protocol.
type Incomplete struct{ Why string }

func (e *Incomplete) Error() string { return e.Why }

// Verdict evaluates a report line by line.
type Verdict struct {
	plan     []Command
	booted   bool
	began    bool // the command at index ended has
	ended    int  // commands that ended
	finished bool
	ends     []Line
	broken   error
}

// NewVerdict returns the verdict on a report of the plan.
func NewVerdict(plan []Command) *Verdict { return &Verdict{plan: plan} }

// Add evaluates the next line. A line that violates the order invalidates the report
// permanently.
func (v *Verdict) Add(l *Line) {
	if v.broken != nil {
		return
	}
	if !v.follows(l) {
		v.broken = &Incomplete{fmt.Sprintf("the machine reports that command %d %s when %d of %d have ended", l.Command, l.Kind, v.ended, len(v.plan))}
		return
	}
	switch l.Kind {
	case Booted:
		v.booted = true
	case Began:
		v.began = true
	case Ended:
		v.began, v.ended = false, v.ended+1
		v.ends = append(v.ends, *l)
	case Finished:
		v.finished = true
	case Failed:
		v.broken = &Incomplete{"the machine failed: " + l.Why}
	}
}

func (v *Verdict) follows(l *Line) bool {
	switch l.Kind {
	case Failed:
		return true
	case Booted:
		return !v.booted
	case Finished:
		return v.booted && !v.finished && v.ended == len(v.plan)
	}
	mine := v.booted && l.Command == v.ended && v.ended < len(v.plan)
	switch l.Kind {
	case Began:
		return mine && !v.began
	case Printed, Ended:
		return mine && v.began
	}
	return false
}

// Ends returns the lines of the commands that ended.
func (v *Verdict) Ends() []Line { return v.ends }

// Status returns the last status other than 0, or 0 if there is none.
func (v *Verdict) Status() int {
	status := 0
	for _, end := range v.ends {
		if end.Status != 0 {
			status = end.Status
		}
	}
	return status
}

// Err returns nil if every command exited with 0 and the machine finished. Returns an
// [Incomplete] error before those of commands: after a crash of the machine the statuses mean
// little.
func (v *Verdict) Err() error {
	var errs []error
	switch {
	case v.broken != nil:
		errs = append(errs, v.broken)
	case !v.booted:
		errs = append(errs, &Incomplete{"the machine did not boot"})
	case v.began:
		errs = append(errs, &Incomplete{fmt.Sprintf("the machine ended during %q", v.plan[v.ended].Args)})
	case !v.finished:
		errs = append(errs, &Incomplete{fmt.Sprintf("the machine ended after %d of %d commands", v.ended, len(v.plan))})
	}
	for _, end := range v.ends {
		if end.Status != 0 {
			why := end.Why
			if why == "" {
				why = fmt.Sprintf("exit status %d", end.Status)
			}
			errs = append(errs, fmt.Errorf("%s: %s", v.plan[end.Command].Args[0], why))
		}
	}
	return errors.Join(errs...)
}
