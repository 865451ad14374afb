package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/report/trial"
)

// TrialHTML returns the comparison of a trial as a page.
func TrialHTML(r *trial.Report) []byte {
	none := func(*section, int) safe { return "" }
	return page(trialTitle(r), trialDocument(r), none, "Made from records by plimsoll report trial.")
}

// TrialMarkdown returns the comparison of a trial as Markdown.
func TrialMarkdown(r *trial.Report) []byte {
	return markdownOf(trialTitle(r), trialDocument(r), nil) // no section has a history
}

// TrialText returns the comparison of a trial as text.
func TrialText(r *trial.Report) []byte { return plainText(trialTitle(r), trialDocument(r)) }

// maxTrialRows bounds a table of rows. JSON has all of them.
const maxTrialRows = 500

func trialTitle(r *trial.Report) string {
	return fmt.Sprintf("Trial on %s, %s", plural(len(r.Nodes), "node"), dated(r.Begin))
}

// dated returns a time with its date.
func dated(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.UTC().Format(stamp)
}

// instant returns a time with its date and its milliseconds.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// trialDocument returns the sections of the comparison.
func trialDocument(r *trial.Report) []section {
	s := &r.Summary
	window := duration(time.Duration(r.WindowSeconds * float64(time.Second)))
	return []section{
		{Level: 2, Heading: "What Plimsoll decided", Table: decisionCounts(s),
			Facts:      [][2]string{{"Time", dated(r.Begin) + " to " + dated(r.End)}, {"Window", window + " before and after a decision"}},
			Paragraphs: []string{fmt.Sprintf("Disarmed agents would have evicted in %s. Armed agents decided %s.", plural(s.DryRun.Total, "decision"), plural(s.Armed.Total, "eviction"))}},
		{Level: 2, Heading: "What other programs evicted", Table: evictionCounts(&s.Evictions), Paragraphs: []string{"A pod that ended as evicted, and not by Plimsoll, was evicted by a kubelet or another program."}},
		{Level: 2, Heading: "What the kernel killed", Table: killCounts(&s.OOMKills),
			Paragraphs: []string{"Avoidable is an estimate: the memory that an armed agent would have freed before was enough for that moment. How memory would have gone on is not recorded."}},
		listOf("Decisions of Plimsoll", "Evictions that Plimsoll decided", []string{"Time", "Node", "Pod", "Decision", "Cause", "Outcome", "Other", "Why", "Record"}, r.Decisions, decisionCells),
		listOf("Evictions by other programs", "Pods that ended as evicted, and not by Plimsoll", []string{"Noticed", "Node", "Pod", "Resource", "Outcome", "Decision", "Why", "Record"}, r.Evictions, evictionCells),
		listOf("OOM kills of the kernel", "Processes that the kernel's OOM killer ended", []string{"Time", "Node", "Pod", "Processes", "Limit of", "Outcome", "Decision", "Why", "Record"}, r.OOMKills, killCells),
		listOf("Nodes", "Nodes of the trial", []string{"Node", "From", "To", "Files", "Agent", "Checks recorded for", "Pods recorded for"}, r.Nodes, nodeCells),
		{Level: 2, Heading: "How it is matched", List: trialRules(window)},
		missingOf(r),
	}
}

// outcomeTexts describe the outcomes.
var outcomeTexts = map[trial.Outcome]string{
	trial.SamePod: "same pod", trial.AnotherPod: "another pod", trial.OOMKill: "OOM kill", trial.PlimsollOnly: "Plimsoll only", trial.Withdrawn: "withdrawn",
	trial.OthersOnly: "others only", trial.Avoidable: "avoidable", trial.Despite: "despite an eviction", trial.NotDecided: "not decided", trial.OwnLimit: "limit of its own", trial.Unknown: unknown,
}

func countsTable(caption string, heads []string, rows ...[]string) *table {
	t := &table{Caption: caption, Heads: heads}
	for _, cells := range rows {
		t.Rows = append(t.Rows, row{Cells: cells})
	}
	return t
}

func decisionCounts(s *trial.Summary) *table {
	line := func(o trial.Outcome, text string, dry, armed int) []string {
		return []string{outcomeTexts[o], strconv.Itoa(dry), strconv.Itoa(armed), text}
	}
	d, a := &s.DryRun, &s.Armed
	all := line(trial.Unknown, "", d.Total, a.Total)
	all[0] = "all"
	return countsTable("Decisions by outcome", []string{"Outcome", "Disarmed", "Armed", "Meaning"},
		line(trial.SamePod, "another program evicted the same pod for the same resource", d.SamePod, a.SamePod),
		line(trial.AnotherPod, "another program evicted another pod for the same resource", d.AnotherPod, a.AnotherPod),
		line(trial.OOMKill, "nothing else was evicted, and the kernel killed for the memory of the node or of all pods", d.OOMKill, a.OOMKill),
		line(trial.PlimsollOnly, "nothing else was evicted or killed", d.PlimsollOnly, a.PlimsollOnly),
		line(trial.Withdrawn, "a soft eviction that did not happen", d.Withdrawn, a.Withdrawn),
		line(trial.Unknown, "the records do not show what others did", d.Unknown, a.Unknown), all)
}

func evictionCounts(e *trial.Evictions) *table {
	line := func(o trial.Outcome, text string, n int) []string {
		return []string{outcomeTexts[o], strconv.Itoa(n), text}
	}
	return countsTable("Evictions by other programs, by outcome", []string{"Outcome", "Evictions", "Meaning"},
		line(trial.SamePod, "Plimsoll would have evicted the same pod", e.SamePod),
		line(trial.AnotherPod, "Plimsoll decided about another pod for the same resource", e.AnotherPod),
		line(trial.OthersOnly, "Plimsoll decided no eviction in its place", e.OthersOnly),
		line(trial.Unknown, "the records do not show what Plimsoll decided, or which resource it was", e.Unknown),
		[]string{"all", strconv.Itoa(e.Total), ""})
}

func killCounts(k *trial.OOMKills) *table {
	line := func(o trial.Outcome, text string, n int64) []string {
		return []string{outcomeTexts[o], strconv.FormatInt(n, 10), text}
	}
	return countsTable("Processes killed, by outcome", []string{"Outcome", "Processes", "Meaning"},
		line(trial.Avoidable, "Plimsoll would have freed the missing memory before, had it been armed", k.Avoidable),
		[]string{"of it another pod", strconv.FormatInt(k.OtherPods, 10), "the kernel killed another pod than the one that Plimsoll would have evicted"},
		line(trial.Despite, "Plimsoll had evicted a pod for memory before", k.Despite),
		line(trial.NotDecided, "Plimsoll had decided no eviction for memory before", k.NotDecided),
		line(trial.OwnLimit, "at the limit of a container or of its pod, which no eviction avoids", k.OwnLimit),
		line(trial.Unknown, "the records show neither", k.Unknown),
		[]string{"all", strconv.FormatInt(k.Total, 10), ""})
}

// listOf returns a section with a row for each item. Beyond the bound those in the middle are left out.
func listOf[T any](heading, caption string, heads []string, items []T, cells func(*T) []string) section {
	s := section{Level: 2, Heading: heading}
	if len(items) == 0 {
		s.Paragraphs = []string{"None."}
		return s
	}
	s.Table = &table{Caption: caption, Heads: heads}
	omitted := max(len(items)-maxTrialRows, 0)
	for n := range items {
		if n == maxTrialRows/2 && omitted > 0 {
			s.Table.Rows = append(s.Table.Rows, row{Omitted: fmt.Sprintf("%d rows in between are left out: -o json has them.", omitted)})
		}
		if n < maxTrialRows/2 || n >= maxTrialRows/2+omitted {
			s.Table.Rows = append(s.Table.Rows, row{Cells: cells(&items[n])})
		}
	}
	return s
}

// placeText names the record of a row. The name of a file may have any characters.
func placeText(p trial.Place) string {
	return fmt.Sprintf("%s at byte %d", quote(printable(p.File, maxText)), p.Offset)
}

// otherText names what a row was matched with.
func otherText(o *trial.Other) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%s at %s", cmp.Or(quote(o.Pod), "outside of pods"), o.Time.UTC().Format(time.TimeOnly))
}

// laterText adds to the act of another how much later than the decision it was, or was noticed.
func laterText(d *trial.Decision) string {
	text := otherText(d.Other)
	if d.Other == nil {
		return text
	}
	how := ", noticed %s %s"
	if d.Outcome == trial.OOMKill {
		how = ", %s %s"
	}
	by, when := d.Other.Time.Sub(d.Time), "later"
	if by < 0 {
		by, when = -by, "earlier"
	}
	return text + fmt.Sprintf(how, duration(by.Round(time.Millisecond)), when)
}

func decisionCells(d *trial.Decision) []string {
	when, verb := instant(d.Time), "evicted"
	if d.Repeats > 0 {
		when += fmt.Sprintf(", repeated %s until %s", times(d.Repeats), d.Last.UTC().Format(time.TimeOnly))
	}
	if d.DryRun {
		verb = "would evict"
	}
	return []string{when, quote(d.Node), quote(d.Pod), verb, causeOf(d), outcomeTexts[d.Outcome], laterText(d), quote(d.Reason), placeText(d.Record)}
}

// causeOf returns what a decision was for, what was available, and the least amount within the window.
func causeOf(d *trial.Decision) string {
	text := quote(cmp.Or(d.Threshold, d.Cause, unknown))
	s, err := signals.Parse(d.Cause)
	if err != nil {
		return text
	}
	if d.Available != nil {
		text += ", available " + s.Definition().Unit.Short(signals.Amount(*d.Available))
	}
	if d.Least != nil && d.Outcome == trial.PlimsollOnly { // else others acted meanwhile
		text += ", lowest later " + s.Definition().Unit.Short(signals.Amount(*d.Least))
	}
	return text
}

func evictionCells(e *trial.Eviction) []string {
	return []string{instant(e.Time), quote(e.Node), quote(e.Pod), quote(e.Resource), outcomeTexts[e.Outcome], otherText(e.Decision), quote(e.Reason), placeText(e.Record)}
}

func killCells(k *trial.Kill) []string {
	when := instant(k.Time)
	if !k.From.IsZero() {
		when = instant(k.From) + " to " + k.Time.UTC().Format(time.TimeOnly)
	}
	decision := otherText(k.Decision)
	if k.Lead != nil {
		decision += fmt.Sprintf(", %s before", duration(time.Duration(*k.Lead*float64(time.Second))))
	}
	return []string{when, quote(k.Node), cmp.Or(quote(k.Pod), "outside of pods"), strconv.FormatInt(k.Processes, 10), quote(k.LimitOf), outcomeTexts[k.Outcome], decision, quote(k.Reason), placeText(k.Record)}
}

func nodeCells(n *trial.Node) []string {
	seconds := func(s float64) string { return duration(time.Duration(s * float64(time.Second))) }
	return []string{quote(n.Name), dated(n.Begin), dated(n.End), strconv.Itoa(n.Files), cmp.Or(listed(n.Arming), unknown), seconds(n.Checks), seconds(n.Usages)}
}

// trialRules are the rules of the matching.
func trialRules(window string) []string {
	return []string{
		"The window of a decision begins " + window + " before its first time, and ends " + window + " after its last one. Decisions in dry run about the same pod and resource, at most 2m0s apart, are one row.",
		"Same pod: a pod with the same UID ended as evicted for the same resource, and its end touches the window.",
		"Another pod: a pod with another UID ended as evicted for the same resource, and its end touches the window. One of the two was there when the other one was chosen. One eviction is the match of one decision at most.",
		"The resource of an eviction is that of the message of the pod's status: memory, ephemeral-storage, inodes, pids, or a local-storage limit of the pod.",
		"OOM kill: a process was killed for the memory of the node or of all pods, at least 50 ms after the decision and before the end of its window.",
		"Avoidable: such a kill follows a decision in dry run about a pod that was still there, and that frees at least the missing memory.",
		"Plimsoll only, others only and not decided need records of the whole window. With a gap in it the row is unknown.",
	}
}

func missingOf(r *trial.Report) section {
	s := section{Level: 2, Heading: "What is missing"}
	for _, text := range r.Missing {
		s.List = append(s.List, quote(printable(strings.TrimSpace(text), 2*maxText)))
	}
	if len(s.List) == 0 {
		s.Paragraphs = []string{"No gap was found in the records."}
	}
	return s
}
