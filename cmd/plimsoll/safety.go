package main

// flagged is armed by the flag alone: true is a dry run.
type flagged bool

// Armed implements agent.Arming.
func (f flagged) Armed() (armed bool, why string) { return !bool(f), "--dry-run" }

// Check implements agent.Arming.
func (f flagged) Check() (armed bool, why string) { return f.Armed() }
