package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

var plan = []Command{
	{Args: []string{"/a", "-x", "b c\n"}, Env: []string{"CI=true", "EMPTY="}, Dir: "/here", Limit: time.Minute},
	{Args: []string{"/b"}, Dir: "/", Limit: 1},
}

func TestPlan_RoundTrips(t *testing.T) {
	text, err := EncodePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodePlan(text); err != nil || !reflect.DeepEqual(got, plan) {
		t.Errorf("%+v, %v", got, err)
	}
	for cut := range text[:len(text)-1] { // an incomplete plan is invalid, except for complete lines
		if got, err := DecodePlan(text[:cut]); err == nil && len(got) != bytes.Count(text[:cut+1], []byte("}")) {
			t.Errorf("%q was decoded as %+v", text[:cut], got)
		}
	}
}

func TestPlan_RefusesInvalidCommands(t *testing.T) {
	for want, change := range map[string]func(*Command){
		"no program":   func(c *Command) { c.Args = nil },
		"not absolute": func(c *Command) { c.Dir = "here" },
		"time limit":   func(c *Command) { c.Limit = 0 },
		"NAME=VALUE":   func(c *Command) { c.Env = []string{"=x"} },
	} {
		c := plan[0]
		change(&c)
		if _, err := EncodePlan([]Command{plan[1], c}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "command 1") {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	for _, text := range []string{"", "{", `{"args":["/a"],"dir":"/","limit":1,"more":1}`, `{"args":[],"dir":"/","limit":1}`, "ls"} {
		if got, err := DecodePlan([]byte(text)); err == nil {
			t.Errorf("%q was decoded as %+v", text, got)
		}
	}
}

// TestLine_EscapesOutput: the output of a command stays inside its line, whatever its content.
func TestLine_EscapesOutput(t *testing.T) {
	forged, err := (&Line{Kind: Ended, Command: 0}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(forged), "\n" + string(forged) + "\n", "\x00\xff\r\n", "}\n{"} {
		encoded, err := (&Line{Kind: Printed, Stream: Stderr, Text: []byte(text)}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(encoded, []byte("\n")); n != 1 || encoded[len(encoded)-1] != '\n' {
			t.Errorf("%q is %d lines: %q", text, n, encoded)
		}
		got, err := DecodeLine(encoded)
		if err != nil || got.Kind != Printed || got.Stream != Stderr || string(got.Text) != text {
			t.Errorf("%q was decoded as %+v, %v", text, got, err)
		}
	}
}

func TestDecodeLine_RefusesOtherText(t *testing.T) {
	complete, err := (&Line{Kind: Finished}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "SeaBIOS", "{}{}", `{"kind":"ended","extra":1}`, string(complete[:len(complete)-2]), string(complete) + string(complete)} {
		if l, err := DecodeLine([]byte(text)); err == nil {
			t.Errorf("%q was decoded as %+v", text, l)
		}
	}
	if l, err := DecodeLine(append(bytes.TrimSpace(complete), "\r\n"...)); err != nil || l.Kind != Finished {
		t.Errorf("a terminal's line end: %+v, %v", l, err)
	}
}

func FuzzDecodeLine(f *testing.F) {
	f.Add([]byte(`{"kind":"ended","command":1,"status":0,"took":5}`))
	f.Add([]byte(`{"kind":"printed","text":"aGFsbG8="}` + "\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := DecodeLine(text)
		if err != nil {
			return
		}
		again, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeLine(again); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%q is %+v, and then %+v, %v", text, l, got, err)
		}
	})
}

// report returns a complete and successful report of the plan.
func report() []Line {
	return []Line{
		{Kind: Booted},
		{Kind: Began, Command: 0}, {Kind: Printed, Command: 0, Text: []byte("x")}, {Kind: Ended, Command: 0},
		{Kind: Began, Command: 1}, {Kind: Ended, Command: 1},
		{Kind: Finished},
	}
}

func verdictOf(lines []Line) *Verdict {
	v := NewVerdict(plan)
	for i := range lines {
		v.Add(&lines[i])
	}
	return v
}

func TestVerdict_AcceptsCompleteReport(t *testing.T) {
	v := verdictOf(report())
	if err := v.Err(); err != nil || v.Status() != 0 || len(v.Ends()) != 2 {
		t.Errorf("%v, status %d, %+v", err, v.Status(), v.Ends())
	}
}

// TestVerdict_RefusesIncompleteReport: a report that stops early, or misses or repeats a line, is not a
// success.
func TestVerdict_RefusesIncompleteReport(t *testing.T) {
	incomplete := func(what string, lines []Line) {
		t.Helper()
		if err := verdictOf(lines).Err(); !errors.As(err, new(*Incomplete)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	complete := report()
	for i := range complete {
		incomplete("cut off", complete[:i])
		twice := append(report()[:i+1], complete[i:]...)
		if complete[i].Kind != Printed { // which may come any number of times
			incomplete("twice "+string(complete[i].Kind), twice)
			incomplete("without "+string(complete[i].Kind), append(report()[:i], complete[i+1:]...))
		}
		failed := append(append(report()[:i:i], Line{Kind: Failed, Why: "no disk"}), complete[i:]...)
		incomplete("failed", failed)
		unknown := append(append(report()[:i:i], Line{Kind: "other"}), complete[i:]...)
		incomplete("unknown", unknown)
	}
	swapped := report()
	swapped[3].Command, swapped[5].Command = 1, 0
	incomplete("swapped", swapped)
}

func TestVerdict_NamesFailures(t *testing.T) {
	lines := report()
	lines[3].Status, lines[3].Why = 137, "ended by killed"
	lines[5].Status = 3
	v := verdictOf(lines)
	err := v.Err()
	if err == nil || errors.As(err, new(*Incomplete)) || !strings.Contains(err.Error(), "/a: ended by killed") || !strings.Contains(err.Error(), "/b: exit status 3") {
		t.Errorf("%v", err)
	}
	if v.Status() != 3 {
		t.Errorf("status %d, want the last status other than 0", v.Status())
	}
}
