package main

import (
	"log/slog"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/report"
	"plimsoll.dev/plimsoll/state"
)

// A reporter implements agent.Reporter: decisions become lines, the state goes
// to its file.
type reporter struct {
	lines *report.Lines
	saver *state.Saver[eviction.Saved] // nil: kept in memory only
}

// openReporter also makes the machine, continuing from the state that was
// saved. An agent that can not keep its state works, and says so.
func openReporter(c *config.Agent, policy *eviction.Policy, lines *report.Lines, log *slog.Logger) (*reporter, *eviction.Machine) {
	machine := eviction.New(policy)
	r := &reporter{lines: lines}
	if c.StateFile == "" {
		return r, machine
	}
	lost := func(err error) {
		log.Error("the state does not survive a restart: timers and conditions would begin anew", "error", err)
	}
	boot, err := state.BootID(c.ProcRoot)
	if err != nil {
		lost(err)
		return r, machine
	}
	file, err := state.Open(c.StateFile, boot)
	if err != nil {
		lost(err)
		return r, machine
	}
	var saved eviction.Saved
	notice, err := file.Load(&saved)
	if err != nil {
		lost(err)
		return r, machine
	}
	log.Info(notice, "stateFile", c.StateFile)
	machine.Restore(saved, time.Now())
	r.saver = state.NewSaver[eviction.Saved](file, lost)
	return r, machine
}

func (r *reporter) Report(d *agent.Decision) { r.lines.JSON(d) }

func (r *reporter) Save(s eviction.Saved) {
	if r.saver != nil {
		r.saver.Save(s)
	}
}

func (r *reporter) Close() {
	if r.saver != nil {
		r.saver.Close()
	}
}
