package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/report/trial"
)

// trialNode is the recording of ten minutes of a node, with further values by the second at which they are.
func trialNode(tb testing.TB, node string, more map[int][]any, gone map[int][]recording.Gone) []byte {
	tb.Helper()
	h := header()
	h.Node = node
	live := map[string]bool{"leaky": true, "db": true, "batch": true}
	var values []any
	kills := int64(3)
	for s := range 600 {
		for _, v := range more[s] {
			if d, is := v.(*recording.Decision); is && strings.Contains(string(d.Line), "oom-kill") {
				kills++
			}
			values = append(values, v)
		}
		if s%10 == 0 {
			u := usage(float64(s)+1, kills)
			for _, g := range gone[s] {
				delete(live, g.Pod.Name)
				u.Gone = append(u.Gone, g)
			}
			for _, name := range []string{"leaky", "db", "batch"} {
				if live[name] {
					u.Pods = append(u.Pods, used(podOf(name, 0), 100*mib, 0))
				}
			}
			values = append(values, check(float64(s), signals.Amount(1000-s)*mib), u)
		}
	}
	return recorded(tb, h, values...)
}

// trialLine is the decision about a pod of a disarmed or armed agent.
func trialLine(tb testing.TB, seconds float64, verb, pod, passed string) *recording.Decision {
	leaky, db := place(1, podOf("leaky", 0), 312*mib, 20*mib, passed), place(2, podOf("db", 0), 125*mib, 0, "")
	c := chosen("shop/leaky", leaky, db)
	c.Shortage = 22 * mib
	return logged(tb, seconds, keys{"time": at(seconds), "decision": verb, "signal": "memory.available", "threshold": "memory.available<100Mi", "available": 78 * mib, "pod": "shop/" + pod, "uid": "uid-" + pod,
		"message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 78Mi. ", "choice": c})
}

// trialFiles are the records of two nodes. On the first one, an agent in dry run agrees with the kubelet once, decides
// about another pod once, and would have avoided an OOM kill. On the second one, the agent was armed, and a
// kubelet evicted a pod for its disk. There is a gap at its end.
func trialFiles(tb testing.TB) map[string][]byte {
	kill := logged(tb, 303, keys{"time": at(303), "decision": "oom-kill", "reason": "why", "pod": "shop/batch", "uid": "uid-batch", "container": "app", "limitOf": "node", "kills": 1})
	return map[string][]byte{
		"trial/node-7.recording": trialNode(tb, "node-7", map[int][]any{
			100: {trialLine(tb, 100, "would-evict", "db", "too small to help")}, 130: {trialLine(tb, 130, "would-evict", "db", "too small to help")},
			300: {trialLine(tb, 300, "would-evict", "db", "could not be ended")}, 303: {kill}, 450: {trialLine(tb, 450, "would-evict", "db", "could not be ended")},
		}, map[int][]recording.Gone{110: {{Pod: podOf("leaky", 0), End: recording.EvictedForMemory}}, 460: {{Pod: podOf("db", 0), End: recording.EvictedForMemory}}}),
		"trial/node-8.recording": trialNode(tb, "node-8", map[int][]any{100: {trialLine(tb, 100, "evict", "leaky", "")}, 590: {trialLine(tb, 590, "would-evict", "db", "")}},
			map[int][]recording.Gone{110: {{Pod: podOf("leaky", 0), End: recording.EvictedForMemory}}, 300: {{Pod: podOf("batch", 0), End: recording.EvictedForDisk}}}),
	}
}

func trialOf(tb testing.TB, files map[string][]byte, window time.Duration) *trial.Report {
	tb.Helper()
	r := trial.NewReading(trial.Options{Window: window})
	for _, name := range []string{"trial/node-7.recording", "trial/node-8.recording"} {
		if err := r.AddRecording(name, files[name]); err != nil {
			tb.Fatal(err)
		}
	}
	report, err := r.Report()
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

func trialForms(tb testing.TB, r *trial.Report) map[string]string {
	tb.Helper()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]string{"html": string(TrialHTML(r)), "md": string(TrialMarkdown(r)), "txt": string(TrialText(r)), "json": string(text) + "\n"}
}

// The comparisons in testdata are those of two nodes. Read them after a change.
func TestTrial_MatchesGolden(t *testing.T) {
	for form, got := range trialForms(t, trialOf(t, trialFiles(t), 0)) {
		name := filepath.Join("testdata", "trial."+form)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil || got != string(want) {
			t.Errorf("%s differs (%v): %s\nread the comparison, then run go test ./internal/report -run Golden -update", name, err, firstDifference(got, string(want)))
		}
	}
}

// hostileTrial is a comparison in which every text is the given one.
func hostileTrial(text string) *trial.Report {
	other := &trial.Other{Time: at(0), Pod: text, UID: text, Record: trial.Place{File: text}}
	place := trial.Place{File: text, Offset: 7}
	return &trial.Report{Begin: at(0), End: at(1), WindowSeconds: 60, Missing: []string{text, text + "z"},
		Nodes:     []trial.Node{{Name: text, Begin: at(0), End: at(1), Files: 1}},
		Decisions: []trial.Decision{{Time: at(0), Node: text, Pod: text, UID: text, Cause: text, Resource: text, Threshold: text, Reason: text, Kubelet: text, Other: other, Outcome: trial.SamePod, Record: place}},
		Evictions: []trial.Eviction{{Time: at(0), Node: text, Pod: text, UID: text, Resource: text, Reason: text, Decision: other, Outcome: trial.SamePod, Record: place}},
		OOMKills:  []trial.Kill{{Time: at(0), Node: text, Pod: text, UID: text, Container: text, LimitOf: text, Reason: text, Decision: other, Outcome: trial.Avoidable, Record: place}}}
}

// No text becomes an element, an attribute, or text outside of its place. What reaches a report is printable, as
// package trial makes it; the names of files are made so here.
func TestTrial_InterpretsNoText(t *testing.T) {
	want := hostileTrial(benign)
	page, markdown := skeleton(t, string(TrialHTML(want))), codeSpan.ReplaceAllString(string(TrialMarkdown(want)), "")
	for _, attack := range attacks {
		text := printable("a"+attack+"z", maxText)
		r := hostileTrial(text)
		if got := skeleton(t, string(TrialHTML(r))); got != page {
			t.Errorf("%q: the page has other elements: %s", text, firstDifference(got, page))
		}
		if got := codeSpan.ReplaceAllString(string(TrialMarkdown(r)), ""); got != markdown {
			t.Errorf("%q: the Markdown has text outside of code: %s", text, firstDifference(got, markdown))
		}
	}
	r := hostileTrial(benign)
	r.Decisions[0].Record.File = "a\x1b[2J"
	if text := string(TrialText(r)); strings.Contains(text, "\x1b") || !strings.Contains(text, "a?[2J at byte 7") {
		t.Errorf("%q", text)
	}
}

// The rows of a large trial are bounded, and what is left out is stated.
func TestTrial_IsBounded(t *testing.T) {
	r := hostileTrial(benign)
	for len(r.Decisions) < 3*maxTrialRows {
		r.Decisions = append(r.Decisions, r.Decisions[0])
	}
	if n, text := strings.Count(string(TrialText(r)), " at byte 7\n"), string(TrialText(r)); n != maxTrialRows+2 || !strings.Contains(text, "(1000 rows in between are left out: -o json has them.)") {
		t.Errorf("%d rows", n)
	}
	for name, section := range trialDocument(&trial.Report{}) {
		if section.Table == nil && len(section.Paragraphs) == 0 && len(section.List) == 0 {
			t.Errorf("section %d of an empty trial is empty", name)
		}
	}
}

// Texts of the counts use the words of the outcomes, which each have one.
func TestTrial_NamesEachOutcome(t *testing.T) {
	for _, o := range []trial.Outcome{trial.SamePod, trial.AnotherPod, trial.OOMKill, trial.PlimsollOnly, trial.Withdrawn, trial.OthersOnly, trial.Avoidable, trial.Despite, trial.NotDecided, trial.OwnLimit, trial.Unknown} {
		if outcomeTexts[o] == "" {
			t.Errorf("%s has no text", o)
		}
	}
}
