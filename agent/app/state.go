package app

import (
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
)

// openState opens the state file. After a fault, which is logged, it returns nil: the agent
// runs without one.
func openState(c *config.Agent, log *slog.Logger) *checkpoint.Sections {
	if c.StateFile == "" {
		return nil
	}
	lost := func(err error) {
		log.Error("Cannot save state: grace periods, conditions and pending pod status updates do not survive a restart", "error", err)
	}
	boot, err := checkpoint.BootID(c.ProcRoot)
	if err != nil {
		lost(err)
		return nil
	}
	file, err := checkpoint.Open(c.StateFile, boot)
	if err != nil {
		lost(err)
		return nil
	}
	sections, notice, err := checkpoint.OpenSections(file, lost)
	if err != nil {
		lost(err)
		return nil
	}
	log.Info(notice, "stateFile", c.StateFile)
	return sections
}

// loadSection reads a section of the state file. Of another version's section the readable
// fields count. If none can be read, it logs the message lost and returns the zero value.
func loadSection[T any](s *checkpoint.Sections, name, lost string, log *slog.Logger) (section T) {
	err := s.Load(name, &section)
	switch {
	case errors.As(err, new(*checkpoint.Partly)):
		log.Warn("Cannot read a section of the state file, using the others", "section", name, "error", err)
	case err != nil:
		log.Error(lost, "error", err)
		section = *new(T)
	}
	return section
}

// decisionsSection is the section of the state file with timers and conditions.
const decisionsSection = "decisions"

// restoredMachine returns a machine with the timers and conditions of the state file.
func restoredMachine(policy *eviction.Policy, sections *checkpoint.Sections, log *slog.Logger) *eviction.Machine {
	machine := eviction.New(policy)
	if sections == nil {
		return machine
	}
	saved := loadSection[eviction.Saved](sections, decisionsSection, "timers and conditions begin anew", log)
	machine.Restore(saved.At(sections.Moment), time.Now())
	return machine
}

// limiterSection is the section of the state file with the effects of evictions.
const limiterSection = "limiter"

// openLimiter returns the limiter with the evictions of the state file, so that a restart
// does not reset its limits.
func (a *app) openLimiter(p limiter.Policy, now time.Time) *limiter.Limiter {
	r := limiter.New(p)
	if a.state == nil {
		return r
	}
	saved := loadSection[limiter.Saved](a.state, limiterSection, "the evictions of the last hour are lost", a.log)
	r.Restore(saved.At(a.state.Moment), now)
	return r
}

func (a *app) saveLimiter(s limiter.Saved) {
	if a.state != nil {
		a.state.Save(limiterSection, s.At(a.state.Stamp))
	}
}

// unreadable is no valid setting: it disarms until the cluster has one.
const unreadable = "unreadable in the state file"

// loadArming returns the settings of the state file. An unreadable part disarms, since it
// may have been the setting that disarmed.
func loadArming(s *checkpoint.Sections, log *slog.Logger) (m arming.Memory) {
	err := s.Load(armingSection, &m)
	if err == nil {
		return m
	}
	log.Error("Cannot read the saved arming settings, disarmed until the cluster has a setting", "error", err, "remedy", "run plimsoll arm again, or remove the section from the state file")
	if !errors.As(err, new(*checkpoint.Partly)) {
		m = arming.Memory{}
	}
	m.All.Setting = unreadable
	return m
}

// maxQuotedStatus bounds the logged part of an unreadable pending status, in bytes.
const maxQuotedStatus = 2 << 10

// loadPendingStatuses returns the pod statuses and events that the API server has not
// accepted yet. Each is read by itself, and logged if it can not be read.
func loadPendingStatuses(s *checkpoint.Sections, log *slog.Logger) (pending []podstatus.PendingStatus) {
	var all []json.RawMessage
	if err := s.Load(statusesSection, &all); err != nil {
		log.Error("Lost the pending pod status updates", "error", err)
		return nil
	}
	for _, raw := range all {
		var d podstatus.PendingStatus
		err := json.Unmarshal(raw, &d)
		n := &d.Notice
		if err != nil && errors.As(err, new(*json.UnmarshalTypeError)) && n.UID != "" && n.Name != "" && n.Namespace != "" && !n.Decided.IsZero() {
			log.Warn("Cannot read a field of a pending pod status update, using the others", "pod", n.Pod(), "error", err)
			d.Status, d.Event, d.Ended = true, true, false // in doubt it is pending; the pod is read before it is patched
			err = nil
		}
		if err != nil {
			log.Error("Cannot read a pending pod status update, dropping it", "error", err, "update", string(raw[:min(len(raw), maxQuotedStatus)]))
			continue
		}
		pending = append(pending, d)
	}
	return pending
}
