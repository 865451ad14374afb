package arming_test

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/arming"
)

func clean(setting string) arming.Inputs {
	return arming.Inputs{DryRun: true, Memory: arming.Memory{Node: arming.Source{Setting: setting}, Findings: arming.Findings{Known: true}}}
}

func TestInputs_Decide(t *testing.T) {
	change := func(w arming.Inputs, apply func(*arming.Inputs)) arming.Inputs { apply(&w); return w }
	found := func(codes ...string) func(*arming.Inputs) {
		return func(w *arming.Inputs) { w.Findings.Errors = codes }
	}
	for _, tc := range []struct {
		name   string
		inputs arming.Inputs
		state  arming.State
		reason string
	}{
		{"no setting", clean(""), arming.Disarmed, "dryRun is true, and neither the ConfigMap nor the Node is set to armed"},
		{"no setting, no dry run", arming.Inputs{}, arming.Armed, "started with dryRun false"},
		{"armed Node", clean("armed"), arming.Armed, "the Node's annotation is set to armed"},
		{"armed ConfigMap", change(clean(""), func(w *arming.Inputs) { w.All.Setting = " armed\n" }), arming.Armed, "the ConfigMap plimsoll-arming is set to armed"},
		{"unknown findings", change(clean("armed"), func(w *arming.Inputs) { w.Findings.Known = false }), arming.Disarmed, "refused: the node is not examined yet"},
		{"findings", change(clean("armed"), found("psi-off", "clock", "clock")), arming.Disarmed, "refused: clock, psi-off"},
		{"findings, one accepted on the Node", change(clean("armed"), func(w *arming.Inputs) {
			found("psi-off", "clock")(w)
			w.Node.Accepted = "psi-off"
		}), arming.Disarmed, "refused: clock"},
		{"findings, accepted on the Node and in the ConfigMap", change(clean("armed"), func(w *arming.Inputs) {
			found("psi-off", "clock")(w)
			w.Node.Accepted, w.All.Accepted = "x, psi-off", "clock\n" // as a YAML block ends
		}), arming.Armed, "the Node's annotation is set to armed"},
		{"findings without a dry run", change(arming.Inputs{}, found("clock")), arming.Armed, "started with dryRun false"},
		{"armed Node without a dry run", change(clean("armed"), func(w *arming.Inputs) { w.DryRun = false; found("clock")(w) }), arming.Armed, "the Node's annotation is set to armed"},
		{"disarmed Node", change(clean("disarmed"), func(w *arming.Inputs) { w.All.Setting = "armed" }), arming.Disarmed, "the Node's annotation is set to disarmed"},
		{"disarmed ConfigMap", change(clean("armed"), func(w *arming.Inputs) { w.All.Setting = "disarmed" }), arming.Disarmed, "the ConfigMap plimsoll-arming is set to disarmed"},
		{"invalid setting", change(clean("Armed!"), func(w *arming.Inputs) { w.All.Setting = "armed" }), arming.Disarmed, `the Node's annotation is set to "Armed!", which is no setting`},
		{"disarm file", change(clean("armed"), func(w *arming.Inputs) { w.File = arming.Present }), arming.Disarmed, "the disarm file exists"},
		{"unreadable disarm file", change(arming.Inputs{}, func(w *arming.Inputs) { w.File = arming.Hidden }), arming.Disarmed, "the disarm file cannot be read"},
		{"signal", change(clean("armed"), func(w *arming.Inputs) { w.Signaled = true }), arming.Disarmed, "disarmed by a signal until the next restart"},
		{"cleanup despite other inputs", change(clean("cleanup"), func(w *arming.Inputs) { w.All.Setting, w.File, w.DryRun = "armed", arming.Present, false }), arming.CleaningUp, "the Node's annotation is set to cleanup"},
		{"cleaned up", change(clean("cleanup"), func(w *arming.Inputs) { w.CleanedUp = true }), arming.CleaningUp, "cleaned-up"},
		{"cleaned up, setting removed", change(clean("armed"), func(w *arming.Inputs) { w.CleanedUp, w.DryRun = true, false }), arming.Disarmed, "cleaned-up"},
		{"departing", change(clean("armed"), func(w *arming.Inputs) { w.Departing = true }), arming.CleaningUp, "the agent's DaemonSet is gone"},
	} {
		if got := tc.inputs.Decide(); got.State != tc.state || got.Reason != tc.reason {
			t.Errorf("%s: %s, %q; want %s, %q", tc.name, got.State, got.Reason, tc.state, tc.reason)
		}
	}
}

// The deletion of the ConfigMap during an uninstallation does not reactivate an agent that has
// cleaned up. A new setting does.
func TestInputs_CleanedUpAgentNeedsNewSetting(t *testing.T) {
	armed, cleanup := arming.Source{Setting: "armed"}, arming.Source{Setting: "cleanup"}
	w := clean("armed")
	w.Read(cleanup, armed)
	w.CleanedUp = true
	if w.Read(arming.Source{}, armed); w.Decide().State != arming.Disarmed {
		t.Errorf("armed without a new setting: %+v", w.Decide())
	}
	if w.Read(armed, armed); w.Decide().State != arming.Armed {
		t.Errorf("not armed by a new setting: %+v", w.Decide())
	}
}

func TestParseSetting_RoundTrip(t *testing.T) {
	for _, w := range []arming.Setting{arming.Unset, arming.Arm, arming.Disarm, arming.Cleanup} {
		if got := arming.ParseSetting(w.String()); got != w {
			t.Errorf("ParseSetting(%q) = %q", w, got)
		}
	}
	for _, text := range []string{"ARMED", "arm", "true", "disarmed cleanup", "unreadable"} {
		if got := arming.ParseSetting(text); got != arming.Unreadable {
			t.Errorf("ParseSetting(%q) = %q", text, got)
		}
	}
}

func TestInputs_BoundsReason(t *testing.T) {
	w := clean(strings.Repeat("é", 1000))
	if r := w.Decide().Reason; len(r) > 200 {
		t.Errorf("reason of %d bytes, want at most 200: %s", len(r), r)
	}
}
