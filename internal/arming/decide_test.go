package arming_test

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/arming"
)

func clean(word string) arming.Words {
	return arming.Words{DryRun: true, Memory: arming.Memory{Node: arming.Voice{Word: word}, Findings: arming.Findings{Known: true}}}
}

func TestDecide(t *testing.T) {
	change := func(w arming.Words, how func(*arming.Words)) arming.Words { how(&w); return w }
	found := func(codes ...string) func(*arming.Words) {
		return func(w *arming.Words) { w.Findings.Errors = codes }
	}
	for _, tc := range []struct {
		about  string
		words  arming.Words
		state  arming.State
		reason string
	}{
		{"nobody says anything", clean(""), arming.Disarmed, "dryRun is true, and neither the ConfigMap nor the Node says armed"},
		{"nobody says anything, no dry run", arming.Words{}, arming.Armed, "started with dryRun false"},
		{"told to arm", clean("armed"), arming.Armed, "the Node's annotation says armed"},
		{"for all", change(clean(""), func(w *arming.Words) { w.All.Word = " armed\n" }), arming.Armed, "the ConfigMap plimsoll-arming says armed"},
		{"not examined", change(clean("armed"), func(w *arming.Words) { w.Findings.Known = false }), arming.Disarmed, "refused: the node is not examined yet"},
		{"findings", change(clean("armed"), found("psi-off", "clock", "clock")), arming.Disarmed, "refused: clock, psi-off"},
		{"findings, one accepted here", change(clean("armed"), func(w *arming.Words) {
			found("psi-off", "clock")(w)
			w.Node.Accepted = "psi-off"
		}), arming.Disarmed, "refused: clock"},
		{"findings, accepted here and everywhere", change(clean("armed"), func(w *arming.Words) {
			found("psi-off", "clock")(w)
			w.Node.Accepted, w.All.Accepted = "x, psi-off", "clock\n" // as a YAML block ends
		}), arming.Armed, "the Node's annotation says armed"},
		{"findings that nobody asked about", change(arming.Words{}, found("clock")), arming.Armed, "started with dryRun false"},
		{"told to, and started so", change(clean("armed"), func(w *arming.Words) { w.DryRun = false; found("clock")(w) }), arming.Armed, "the Node's annotation says armed"},
		{"one node is held back", change(clean("disarmed"), func(w *arming.Words) { w.All.Word = "armed" }), arming.Disarmed, "the Node's annotation says disarmed"},
		{"all are held back", change(clean("armed"), func(w *arming.Words) { w.All.Word = "disarmed" }), arming.Disarmed, "the ConfigMap plimsoll-arming says disarmed"},
		{"a word that is none", change(clean("Armed!"), func(w *arming.Words) { w.All.Word = "armed" }), arming.Disarmed, `the Node's annotation says "Armed!", which is no word`},
		{"the file is there", change(clean("armed"), func(w *arming.Words) { w.File = arming.Present }), arming.Disarmed, "the disarm file is there"},
		{"the file may be there", change(arming.Words{}, func(w *arming.Words) { w.File = arming.Hidden }), arming.Disarmed, "the disarm file can not be looked for"},
		{"a signal", change(clean("armed"), func(w *arming.Words) { w.Signaled = true }), arming.Disarmed, "told by a signal, until a restart"},
		{"cleanup, whatever else", change(clean("cleanup"), func(w *arming.Words) { w.All.Word, w.File, w.DryRun = "armed", arming.Present, false }), arming.CleaningUp, "the Node's annotation says cleanup"},
		{"has cleaned up", change(clean("cleanup"), func(w *arming.Words) { w.CleanedUp = true }), arming.CleaningUp, "cleaned-up"},
		{"has cleaned up, and the setting is gone", change(clean("armed"), func(w *arming.Words) { w.CleanedUp, w.DryRun = true, false }), arming.Disarmed, "cleaned-up"},
		{"departing", change(clean("armed"), func(w *arming.Words) { w.Departing = true }), arming.CleaningUp, "the agent's DaemonSet is gone"},
	} {
		if got := tc.words.Decide(); got.State != tc.state || got.Reason != tc.reason {
			t.Errorf("%s: %s, %q; want %s, %q", tc.about, got.State, got.Reason, tc.state, tc.reason)
		}
	}
}

// The deletion of the ConfigMap during an uninstallation does not reactivate an agent that has
// left; a new setting does.
func TestWhoHasLeftIsCalledBackByAWordAlone(t *testing.T) {
	armed, cleanup := arming.Voice{Word: "armed"}, arming.Voice{Word: "cleanup"}
	w := clean("armed")
	w.Hear(cleanup, armed)
	w.CleanedUp = true
	if w.Hear(arming.Voice{}, armed); w.Decide().State != arming.Disarmed {
		t.Errorf("back without a word: %+v", w.Decide())
	}
	if w.Hear(armed, armed); w.Decide().State != arming.Armed {
		t.Errorf("called back: %+v", w.Decide())
	}
}

func TestWordsAreReadAsTheyAreWritten(t *testing.T) {
	for _, w := range []arming.Word{arming.Silence, arming.Arm, arming.Disarm, arming.Cleanup} {
		if got := arming.ParseWord(w.String()); got != w {
			t.Errorf("%q is read as %q", w, got)
		}
	}
	for _, text := range []string{"ARMED", "arm", "true", "disarmed cleanup", "unreadable"} {
		if got := arming.ParseWord(text); got != arming.Unreadable {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

func TestAReasonStaysShort(t *testing.T) {
	w := clean(strings.Repeat("é", 1000))
	if r := w.Decide().Reason; len(r) > 200 {
		t.Errorf("%d bytes: %s", len(r), r)
	}
}
