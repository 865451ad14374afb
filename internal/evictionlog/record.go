package evictionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/ranking"
)

// Bounds of one record, in bytes.
const (
	maxRecordBytes = 3 << 10
	maxText        = 512 // of a reason or a message
	maxShortText   = 128 // of a reason of one pod
	maxFailed      = 3   // pods that could not be ended
)

// Withdrawn is the end of a soft eviction that was not carried out. A later record of the pod replaces it.
const Withdrawn = "withdrawn"

// compact returns the record as it is stored: without what the log has for the moment alone, and with
// bounded texts.
func compact(r *decisionlog.Record) decisionlog.Record {
	c := *r
	c.WokenBy, c.Met, c.Unknown, c.Reclaimed, c.Ranking, c.Stalls, c.Consumers, c.Unmeasured = nil, nil, nil, nil, nil, nil, nil, nil
	c.Reason, c.Message, c.End = shorten(c.Reason, maxText), shorten(strings.TrimSpace(c.Message), maxText), shorten(c.End, maxText)
	c.Failed = append([]decisionlog.PodReason(nil), c.Failed[:min(len(c.Failed), maxFailed)]...)
	for i := range c.Failed {
		c.Failed[i].Reason = shorten(c.Failed[i].Reason, maxShortText)
	}
	if r.Choice != nil {
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

// encode returns the line of a record, at most maxRecordBytes long. Returns an error if the record has no
// pod or no time, or if its names alone exceed that length.
func encode(r *decisionlog.Record) (string, error) {
	if r.Pod == "" || r.Time.IsZero() {
		return "", fmt.Errorf("record the eviction of %q at %s: a record needs a pod and a time", r.Pod, r.Time)
	}
	c := compact(r)
	for _, shrink := range []func(){
		func() {}, func() { c.Failed = nil }, func() { c.Choice = nil }, func() { c.Message, c.Reason, c.End = "", "", "" },
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

// decode returns the record of a line. Returns an error if this version cannot read it.
func decode(line string) (decisionlog.Record, error) {
	var r decisionlog.Record
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("read the record of an eviction: %w", err)
	}
	if r.Pod == "" || r.Time.IsZero() {
		return r, errors.New("read the record of an eviction: it has no pod or no time")
	}
	if r.Choice != nil {
		order := orderOf(r.Choice.Cause)
		for i := range r.Choice.Places {
			r.Choice.Places[i].Key.Order = order
		}
	}
	return r, nil
}

// orderOf returns the order of a ranking by its cause. A local-storage limit has no ranking.
func orderOf(cause string) ranking.Order {
	if s, err := signals.Parse(cause); err == nil {
		return ranking.For(s)
	}
	return ranking.ByMemory
}

// shorten returns at most n bytes of a text.
func shorten(text string, n int) string {
	const mark = "..."
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len(mark)], "") + mark
}
