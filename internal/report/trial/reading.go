package trial

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// Reading collects the records of nodes.
type Reading struct {
	options Options
	nodes   map[string]*node
	notes   []string
	unread  int // notes beyond maxNotes
	facts   int // stored of all nodes
}

// Bounds of what is stored.
const (
	maxNodes    = 1 << 13
	maxNotes    = 200
	maxFacts    = 1 << 16              // of one kind, of a node
	maxUIDs     = recording.MaxTracked // pods with counters, of a node
	maxAllFacts = 1 << 22              // of all kinds and nodes: about 2 GiB
	maxLine     = recording.MaxPayload
	maxPairs    = 1 << 27 // of facts that are compared with each other, of a node: some seconds
)

// decisionFacts is the number of facts for which a decision counts, by its size.
const decisionFacts = 16

// ErrTooMany is the error of records with more facts than are compared at once.
var ErrTooMany = errors.New("too many to compare at once: export a shorter time, or give fewer nodes")

// NewReading returns a reading without records.
func NewReading(o Options) *Reading {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	return &Reading{options: o, nodes: map[string]*node{}}
}

// AddRecording adds a recording, or a segment of one, in the order of their numbers. Returns
// [*recording.MalformedError] if it has no readable frame, or a damaged part. The rest of it counts nevertheless, and
// nothing around the damage counts as known.
func (r *Reading) AddRecording(file string, data []byte) error {
	reader, shown := recording.NewReader(data), signals.Printable(file)
	var n *node
	var before recording.Damage
	var counted *node // the last one with this file
	found := false
	for e := reader.Next(); e != nil; e = reader.Next() {
		if now := reader.Damage(); now != before {
			if before = now; n != nil {
				n.run.pause()
			}
		}
		switch {
		case e.Header != nil:
			found = true
			if n = r.node(e.Header.Node); n != nil {
				n.begin(e.Header)
			}
			if n != nil && n != counted {
				counted = n
				n.files++
			}
		case n != nil && !e.IsPod:
			n.add(e, Place{shown, e.Offset})
		}
	}
	if !found {
		return &recording.MalformedError{File: file, Cause: recording.ErrNoRecording}
	}
	damage := reader.Damage()
	if n != nil && damage != before { // at its end
		n.run.pause()
	}
	switch {
	case damage.Any():
		r.note(fmt.Sprintf("%s is not readable in part: %s.", shown, &damage))
	case damage.Tail > 0:
		r.note(fmt.Sprintf("%s ends within a record, or has %d of an agent that was killed: see whether the export broke off.", shown, damage.Tail))
	}
	return damage.Err(file)
}

// errNotALine is the cause of an error of decisions.
var errNotALine = errors.New("it is no line of the decision log")

// AddDecisions adds the lines of the decision log of a node. Lines without a decision are skipped, since the log of
// an agent has others. Returns [*recording.MalformedError] if a line is not JSON, or none has a decision. The other
// lines count nevertheless.
func (r *Reading) AddDecisions(file, nodeName string, data []byte) (err error) {
	n := r.node(nodeName)
	if n != nil {
		n.files++
		n.endRun()
		n.run = run{}
	}
	found, malformed, offset, shown := false, 0, 0, signals.Printable(file)
	for text := range bytes.Lines(data) {
		at := Place{shown, int64(offset)}
		offset += len(text)
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var l line
		if len(text) > maxLine || json.Unmarshal(text, &l) != nil {
			if malformed++; malformed == 1 {
				err = &recording.MalformedError{File: file, Offset: at.Offset, Cause: errNotALine}
			}
			continue
		}
		if l.Decision == "" || l.Time.IsZero() {
			continue
		}
		if found = true; n != nil {
			n.addLine(&l, l.Time, at)
		}
	}
	if malformed > 0 {
		r.note(fmt.Sprintf("%d lines of %s are not readable.", malformed, shown))
	}
	if !found && err == nil {
		err = &recording.MalformedError{File: file, Cause: errNotALine}
	}
	return err
}

// note notes a part that is missing.
func (r *Reading) note(text string) {
	if len(r.notes) == maxNotes {
		r.unread++
		return
	}
	r.notes = append(r.notes, text)
}

// node returns the node of that name, or nil if it is not part of the trial.
func (r *Reading) node(name string) *node {
	name = cmp.Or(printableName(name), unknown)
	if len(r.options.Nodes) > 0 && !slices.Contains(r.options.Nodes, name) {
		return nil
	}
	n := r.nodes[name]
	if n == nil && len(r.nodes) > maxNodes { // Report returns an error
		return nil
	}
	if n == nil {
		n = &node{name: name, window: r.options.Window, facts: &r.facts, runs: map[string]int{}, counters: map[string]counter{}, since: map[string]time.Time{}}
		r.nodes[name] = n
	}
	return n
}
