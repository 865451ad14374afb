package app

import (
	"encoding/json"
	"errors"
	"log/slog"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
)

// sectionOf reads a section of the state file. Of one of another version the fields
// that can be read are used; of one that can not be read at all, which is logged,
// nothing is.
func loadSection[T any](s *checkpoint.Sections, name, lost string, log *slog.Logger) (section T) {
	err := s.Load(name, &section)
	switch {
	case errors.As(err, new(*checkpoint.Partly)):
		log.Warn("a part of the state file can not be read: the rest is used", "section", name, "error", err)
	case err != nil:
		log.Error(lost, "error", err)
		section = *new(T)
	}
	return section
}

// unreadable is no word of arming: it disarms until the cluster says a word.
const unreadable = "unreadable in the state file"

// rememberedArming is what was said of arming before the start. A part of it that
// can not be read disarms, since it may have been what disarmed.
func loadArming(s *checkpoint.Sections, log *slog.Logger) (m arming.Memory) {
	err := s.Load(armingSection, &m)
	if err == nil {
		return m
	}
	log.Error("what was said of arming can not be read: disarmed until the cluster says a word", "error", err, "remedy", "say the word anew, or remove the section from the state file")
	if !errors.As(err, new(*checkpoint.Partly)) {
		m = arming.Memory{}
	}
	m.All.Word = unreadable
	return m
}

// maxQuotedDebt bounds how much is logged of a debt that can not be read, in bytes.
const maxQuotedStatus = 2 << 10

// debtsOf are the statuses and events that are still owed to the API server. Each is
// read by itself; one that can not be read is logged in full.
func loadPendingStatuses(s *checkpoint.Sections, log *slog.Logger) (debts []podstatus.Debt) {
	var all []json.RawMessage
	if err := s.Load(statusesSection, &all); err != nil {
		log.Error("what is owed to the API server is lost", "error", err)
		return nil
	}
	for _, raw := range all {
		var d podstatus.Debt
		err := json.Unmarshal(raw, &d)
		n := &d.Notice
		if err != nil && errors.As(err, new(*json.UnmarshalTypeError)) && n.UID != "" && n.Name != "" && n.Namespace != "" && !n.Decided.IsZero() {
			log.Warn("a part of what is owed to the API server can not be read: the rest is used", "pod", n.Pod(), "error", err)
			d.Status, d.Event, d.Ended = true, true, false // in doubt it is owed; the pod is read before it is told
			err = nil
		}
		if err != nil {
			log.Error("an eviction that is owed to the API server can not be read, and is not reported", "error", err, "debt", string(raw[:min(len(raw), maxQuotedStatus)]))
			continue
		}
		debts = append(debts, d)
	}
	return debts
}
