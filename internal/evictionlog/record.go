package evictionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
)

// Bounds of one record. Texts are in bytes.
const (
	maxRecordBytes = 3 << 10
	maxText        = 512 // of a reason or a message
	maxShortText   = 128 // of a reason of one pod
	maxName        = 320 // namespace/name has at most 317
	maxFailed      = 3   // pods that could not be ended
	maxPlaces      = 8   // of a choice. An agent writes six
)

// The ends of a soft eviction. That of a hard one is the reason for which the wait for its memory ended.
const (
	Withdrawn = "withdrawn"   // it was not carried out; a later record of the pod replaces it
	Ended     = "ended"       // the wait for its memory follows
	NotEnded  = "not ended"   // the pod had not ended when the wait for it was over
	Escalated = "escalated: " // a hard threshold shortened it, for the reason that follows
)

// IsOpen reports whether the wait for the memory of an eviction with an end may still go on.
func IsOpen(end string) bool {
	if strings.HasPrefix(end, Escalated) {
		_, end, _ = strings.Cut(end, "; ")
	}
	return end == "" || end == Ended || end == NotEnded
}

// Then adds a later end to that of an escalation. It replaces any other.
func Then(end, later string) string {
	if strings.HasPrefix(end, Escalated) {
		earlier, _, _ := strings.Cut(end, "; ")
		return earlier + "; " + later
	}
	return later
}

// Cause returns the name of the signal or of the local-storage limit for which the pod was evicted.
func Cause(r *decisionlog.Record) string {
	if r.Choice != nil {
		return r.Choice.Cause
	}
	return r.Signal
}

// compact returns the record as it is stored: without what the log has for the moment alone, and with
// bounded texts.
func compact(r *decisionlog.Record) decisionlog.Record {
	c := *r
	clearLogOnly(&c)
	c.Reason, c.Message, c.End = shorten(c.Reason, maxText), shorten(strings.TrimSpace(c.Message), maxText), shorten(c.End, maxText)
	c.Failed = append([]decisionlog.PodReason(nil), c.Failed[:min(len(c.Failed), maxFailed)]...)
	for i := range c.Failed {
		c.Failed[i].Reason = shorten(c.Failed[i].Reason, maxShortText)
	}
	if r.Choice != nil {
		if len(r.Choice.Places) > 0 {
			c.KubeletWouldEvict = "" // Choice.Kubelet is the kubelet's own order
		}
		choice := *r.Choice
		choice.Places = append([]decisionlog.Place(nil), choice.Places...)
		for i := range choice.Places {
			p := &choice.Places[i]
			p.Incomplete, p.Open, p.Passed = shorten(p.Incomplete, maxShortText), shorten(p.Open, maxShortText), shorten(p.Passed, maxShortText)
		}
		c.Choice = &choice
	}
	return c
}

// clearLogOnly clears the keys of the line of the log that no stored record has.
func clearLogOnly(r *decisionlog.Record) {
	r.WokenBy, r.Met, r.Unknown, r.Reclaimed, r.Ranking, r.Stalls, r.Consumers, r.Unmeasured = nil, nil, nil, nil, nil, nil, nil, nil
}

// encode returns the line of a record, at most maxRecordBytes long. Returns an error if the record has no
// pod or no time, or if its names alone exceed that length.
func encode(r *decisionlog.Record) (string, error) {
	if r.Pod == "" || r.Time.IsZero() {
		return "", fmt.Errorf("record the eviction of %q at %s: a record needs a pod and a time", r.Pod, r.Time)
	}
	c := compact(r)
	for _, shrink := range []func(){
		func() {}, func() { c.Failed = nil }, func() { shortenPlaces(&c, true) }, func() { shortenPlaces(&c, false) }, func() { c.Message, c.Reason, c.End = "", "", "" },
	} {
		shrink()
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(&c); err != nil {
			return "", fmt.Errorf("record the eviction of %s: %w", r.Pod, err)
		}
		if b.Len() <= maxRecordBytes {
			return strings.TrimSuffix(b.String(), "\n"), nil
		}
	}
	return "", fmt.Errorf("record the eviction of %.80s…: its names are longer than %d bytes", r.Pod, maxRecordBytes)
}

// shortenPlaces drops all places of the ranking, or all but the evicted pod's and the next one's.
func shortenPlaces(c *decisionlog.Record, keep bool) {
	if c.Choice == nil {
		return
	}
	var places []decisionlog.Place
	if evicted, next := c.Evicted(); keep && evicted != nil {
		if places = append(places, *evicted); next != nil {
			places = append(places, *next)
		}
	}
	c.Choice.Places = places
}

// decode returns the record of a line, with the bounds of a stored one and with texts that a terminal can print. A
// stolen token may have written the line. Returns an error if this version cannot read it.
func decode(line string) (decisionlog.Record, error) {
	var r decisionlog.Record
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("read the record of an eviction: %w", err)
	}
	if r.Pod == "" || r.Time.IsZero() {
		return r, errors.New("read the record of an eviction: it has no pod or no time")
	}
	clearLogOnly(&r)
	// Clones do not retain the memory of the rest.
	r.Conditions = slices.Clone(r.Conditions[:min(len(r.Conditions), signals.ConditionCount)])
	r.Failed = slices.Clone(r.Failed[:min(len(r.Failed), maxFailed)])
	if c := r.Choice; c != nil {
		c.Places = slices.Clone(c.Places[:min(len(c.Places), maxPlaces)])
		c.SetOrder()
	}
	names, others := r.Texts()
	for _, name := range names {
		*name = signals.Printable(shorten(*name, maxName))
	}
	for _, text := range others {
		*text = signals.Printable(shorten(*text, maxText))
	}
	return r, nil
}

// shorten returns at most n bytes of a text.
func shorten(text string, n int) string {
	const mark = "..."
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len(mark)], "") + mark
}
