package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// summary returns what happened, in sentences.
func (i *Incident) summary() []string {
	all := slices.Concat(i.crossingSentences(), i.conditionSentences(), i.evictionSentences(), i.refusalSentences(), i.departureSentences(), i.killSentences())
	if n := i.changes.count(); n > 0 {
		items, _ := i.changes.all()
		all = append(all, fmt.Sprintf("The configuration of the agent changed %s, first at %s: the table of thresholds has the time of each.", times(n), items[0]))
	}
	if i.gaps.count() > 0 {
		all = append(all, "Parts of this time are not recorded: see what is missing.")
	}
	return all
}

// crossingSentences has for each threshold how often and how long it was crossed.
func (i *Incident) crossingSentences() (all []string) {
	thresholds := 0
	for _, h := range i.histories {
		if h == nil {
			continue
		}
		for _, c := range h.crossings {
			if thresholds++; c.times > 0 {
				all = append(all, i.crossingSentence(h, c))
			}
		}
	}
	switch {
	case len(all) > 0:
		return all
	case thresholds > 0:
		return []string{"No recorded check was below a threshold."}
	}
	return []string{"The thresholds are not known."}
}

func (i *Incident) crossingSentence(h *history, c *crossing) string {
	text := fmt.Sprintf("The threshold %s was crossed %s, ", quote(c.threshold), times(c.times))
	if c.times == 1 {
		text += "at " + i.clock(c.first)
	} else {
		text += "first at " + i.clock(c.first)
	}
	switch {
	case c.atEnd:
		text += ", and still at the end"
	case c.times > 1:
		text += fmt.Sprintf(" and last until %s, for %s in all", i.clock(c.last), duration(c.total))
	default:
		text += fmt.Sprintf(", for %s", duration(c.total))
	}
	return text + fmt.Sprintf("; the least available was %s.", amount(c.least, h.signal.Definition().Unit))
}

func (i *Incident) conditionSentences() (all []string) {
	for n := range i.conditions {
		if p := &i.conditions[n]; p.count > 0 {
			all = append(all, fmt.Sprintf("By the agent's checks the condition %s was True from %s on, for %s in all.", signals.Condition(n), i.clock(p.first), duration(p.total)))
		}
	}
	return all
}

// evictionSentences has which pods the agent evicted, or would have.
func (i *Incident) evictionSentences() (all []string) {
	items, _ := i.evictions.all()
	var done, dry []string
	for _, x := range items {
		text := quote(x.pod) + " at " + i.clock(x.at)
		if x.dryRun {
			dry = append(dry, text)
		} else {
			done = append(done, text)
		}
	}
	if i.evictions.omitted == 0 {
		all = append(all, enumerated("The agent evicted ", "no pod", done), enumerated("Being disarmed, it would have evicted ", "", dry))
	} else {
		pods := "no pod"
		if done := i.evictions.count() - i.dryRuns; done > 0 {
			pods = plural(done, "pod")
		}
		all = append(all, fmt.Sprintf("The agent evicted %s.", pods))
		if i.dryRuns > 0 {
			all = append(all, fmt.Sprintf("Being disarmed, it would have evicted in %s.", plural(i.dryRuns, "case")))
		}
		all = append(all, fmt.Sprintf("The first decision was about %s at %s.", quote(items[0].pod), i.clock(items[0].at)))
	}
	different := 0
	for _, x := range items {
		if x.differs() {
			different++
		}
	}
	if different > 0 {
		all = append(all, fmt.Sprintf("A kubelet would have chosen otherwise in %s.", plural(different, "case")))
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// enumerated returns a sentence about pods, of which it names the first ones. It returns the one about none
// without any, and an empty text if there is none.
func enumerated(begin, none string, pods []string) string {
	n := len(pods)
	switch {
	case n == 0 && none == "":
		return ""
	case n == 0:
		return begin + none + "."
	case n > maxNamed:
		return fmt.Sprintf("%s%s: %s and %d more.", begin, plural(n, "pod"), strings.Join(pods[:maxNamed], ", "), n-maxNamed)
	}
	return fmt.Sprintf("%s%s: %s.", begin, plural(n, "pod"), listed(pods))
}

// refusals are the decisions against an eviction, in the order of their sentence.
var refusals = []struct{ verb, text string }{
	{"none-helps", "no pod would have helped"}, {"limited", "a limit applied"}, {"ineffective", "earlier evictions had no effect"},
	{"blocked", "something else had to end first"}, {"failed", "no pod could be ended"},
}

func (i *Incident) refusalSentences() []string {
	var parts []string
	total := 0
	for _, r := range refusals {
		if n := i.refusals[r.verb]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%s (%d)", r.text, n))
		}
	}
	if total == 0 {
		return nil
	}
	return []string{fmt.Sprintf("A threshold was met without an eviction in %s: %s.", plural(total, "decision"), listed(parts))}
}

func (i *Incident) departureSentences() []string {
	n := i.departures.count()
	if n == 0 {
		return nil
	}
	items, _ := i.departures.all()
	return []string{fmt.Sprintf("%s ended as evicted without a recorded eviction by this agent, the first at %s: %s.", plural(n, "pod"), i.clock(items[0].at), quote(items[0].pod))}
}

// killSentences has what the kernel's OOM killer ended, and what the attribution names.
func (i *Incident) killSentences() (all []string) {
	n := i.killed()
	switch {
	case n == 0 && i.counted == recording.Unknown:
		return []string{"Whether the kernel's OOM killer ended processes is not recorded."}
	case n == 0:
		return []string{"The kernel's OOM killer ended no process."}
	}
	all = append(all, fmt.Sprintf("The kernel's OOM killer ended %s.", plural(int(n), "process")))
	items, _ := i.kills.all()
	for _, k := range items[:min(len(items), maxNamed)] {
		all = append(all, i.killSentence(&k))
	}
	if rest := i.kills.count() - maxNamed; rest > 0 {
		all = append(all, fmt.Sprintf("The table has %s.", plural(rest, "further kill")))
	}
	return all
}

func (i *Incident) killSentence(k *kill) string {
	of := plural(int(k.processes), "process")
	switch k.pod {
	case "":
		of += " outside of pods"
	case unknown:
		of += " of an unknown pod"
	default:
		of += " of " + quote(k.pod)
	}
	when := "At " + i.clock(k.to)
	if !k.from.Equal(k.to) && !k.from.IsZero() {
		when = "Between " + i.clock(k.from) + " and " + i.clock(k.to)
	}
	return fmt.Sprintf("%s it ended %s; held most: %s, grew most before: %s.", when, of, quote(k.held), quote(k.grew))
}

// title names the report.
func (i *Incident) title() string {
	return fmt.Sprintf("Incident on node %s, %s", i.node(), i.begin.UTC().Format(stamp))
}

// heads returns the facts about the report: names with their values.
func (i *Incident) heads() [][2]string {
	heads := [][2]string{{"Node", i.node()},
		{"Time", fmt.Sprintf("%s to %s (%s)", i.begin.UTC().Format(stamp), i.end.UTC().Format(stamp), duration(i.span().Round(time.Second)))}}
	for _, a := range i.agents {
		heads = append(heads, [2]string{"Agent", fmt.Sprintf("version %s on %s, with values from %s to %s", quote(a.version), quote(a.system), i.clock(a.from), i.clock(a.to))})
	}
	return append(heads,
		[2]string{"Checks", fmt.Sprintf("%d periodic, %d early. Far from a threshold, early checks are not recorded", i.periodic.count, i.early.count)},
		[2]string{"Pods", fmt.Sprintf("%d in all, %d at once, measured %s", i.memory.pods, i.memory.most, times(i.usages))})
}
