package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Kind is a kind of line in the report.
type Kind string

// The kinds, in order: a machine is booted; each command begins, prints, ends; the machine is
// finished, or has failed by itself.
const (
	Booted   Kind = "booted"
	Began    Kind = "began"
	Printed  Kind = "printed"
	Ended    Kind = "ended"
	Finished Kind = "finished"
	Failed   Kind = "failed"
)

// The output streams of a command.
const (
	Stdout = 1
	Stderr = 2
)

// Line is a line of the report.
type Line struct {
	Kind    Kind          `json:"kind"`
	Command int           `json:"command"` // its place in the plan
	Stream  int           `json:"stream,omitempty"`
	Text    []byte        `json:"text,omitempty"` // printed; base64 in JSON, so that any bytes travel
	Status  int           `json:"status"`         // of an end: the exit status, 128 and the signal's number if one ended it
	Why     string        `json:"why,omitempty"`  // of an end that is no exit, or a failure
	Took    time.Duration `json:"took,omitempty"` // of an end, by the machine's clock
}

// Encode returns the line with its end. Returns the error of the JSON encoder.
func (l *Line) Encode() ([]byte, error) {
	text, err := json.Marshal(l)
	return append(text, '\n'), err
}

// DecodeLine decodes a line of the report. Returns an error for other lines, such as those of
// firmware.
func DecodeLine(text []byte) (l Line, err error) {
	text = bytes.TrimRight(text, "\r\n")
	lines := json.NewDecoder(bytes.NewReader(text))
	lines.DisallowUnknownFields()
	if err := lines.Decode(&l); err != nil {
		return Line{}, fmt.Errorf("%q is no line of the report: %w", text, err)
	}
	if lines.More() {
		return Line{}, fmt.Errorf("%q is more than a line of the report", text)
	}
	return l, nil
}
