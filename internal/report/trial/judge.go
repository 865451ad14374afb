package trial

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/why"
)

// judge returns the row of an OOM kill.
func (m *matching) judge(k *kill) Kill {
	row := Kill{Time: k.to, Node: m.name, Pod: k.pod, UID: printable(k.uid), Container: k.container, LimitOf: k.limitOf, Processes: k.processes, Record: k.place, Outcome: Unknown}
	switch {
	case k.counted:
		row.From, row.Reason = k.from, "Only a counter shows it: the limit that was met is not recorded."
	case k.ofPod():
		row.Outcome, row.Reason = OwnLimit, "No eviction of another pod avoids it."
	case !k.ofNode():
		row.Reason = "Whether evictions free memory below the limit that was met is not known."
	default:
		m.judgeExhaustion(k, &row)
	}
	return row
}

// judgeExhaustion sets the outcome of an OOM kill for the memory of the node or of all pods.
func (m *matching) judgeExhaustion(k *kill, row *Kill) {
	var first *decision // that would have freed the missing amount, or the first one
	doubt := ""
	for _, d := range m.decisions {
		if !m.follows(k, d) {
			continue
		}
		problem := timesUncertain
		if !touched(m.steps, span{d.at, k.to}) {
			if !d.dryRun {
				row.Outcome, row.Reason = Despite, ""
				row.setDecision(d, k)
				return
			}
			problem = m.doubt(d, k)
		}
		switch {
		case first == nil:
			first, doubt = d, problem
		case doubt != "" && problem == "":
			first, doubt = d, ""
		}
	}
	s := span{k.to.Add(-m.window), k.to}
	switch {
	case first != nil && doubt != "":
		row.Reason = doubt
		row.setDecision(first, k)
	case first != nil:
		row.Outcome = Avoidable
		row.Reason = fmt.Sprintf("%s were missing, and the end of %s frees %s. The kernel killed %s.", bytesText(first.choice.Shortage), first.pod, bytesText(*first.frees),
			map[bool]string{true: "the same pod", false: "another one"}[k.uid == first.uid])
		row.setDecision(first, k)
	case !m.knowsChecks(s):
		row.Reason = "Checks are not recorded for the whole window before it."
	default:
		row.Outcome, row.Reason = NotDecided, m.lastRefusal(s, string(signals.Memory), true).sentence()
	}
}

// timesUncertain is why the order of two records is not known.
const timesUncertain = "The time of day was set in between, or is that of two agents."

func bytesText(n int64) string { return signals.Readable(signals.Amount(n), signals.UnitBytes) }

func (r *Kill) setDecision(d *decision, k *kill) {
	r.Lead, r.Decision = new(k.to.Sub(d.at).Round(time.Millisecond).Seconds()), d.asOther()
}

// doubt returns why an eviction in dry run might not have avoided a later OOM kill; empty if it would have freed the
// missing amount in time.
func (m *matching) doubt(d *decision, k *kill) string {
	switch left := m.left[d.uid]; {
	case d.choice == nil || d.frees == nil:
		return fmt.Sprintf("How much memory the end of %s frees is not recorded.", d.pod)
	case d.choice.Shortage <= 0: // a choice as that of a kubelet does not need it
		return "How much memory was missing is not recorded."
	case *d.frees < d.choice.Shortage:
		return fmt.Sprintf("%s were missing, and the end of %s frees only %s.", bytesText(d.choice.Shortage), d.pod, bytesText(*d.frees))
	case k.uid == d.uid: // it was still there
		return ""
	case left != nil && left.from.Before(k.to):
		return fmt.Sprintf("The end of %s did not avoid it: the pod was gone before.", d.pod)
	case !m.knowsEnds(span{d.at, k.to}):
		return fmt.Sprintf("Whether %s was still there is not recorded.", d.pod)
	}
	return ""
}

// whyAnother explains, by the record of a decision, why another program evicted another pod.
func whyAnother(d *decision, e *otherEviction) string {
	if d.choice == nil {
		return "The ranking of the decision is not recorded."
	}
	var own, others *decisionlog.Place
	for i := range d.choice.Places {
		switch p := &d.choice.Places[i]; {
		case p.UID == d.uid:
			own = p
		case p.UID == e.uid:
			others = p
		}
	}
	text := ""
	switch {
	case others == nil:
		text = fmt.Sprintf("The recorded part of the ranking does not have %s.", e.pod)
	case others.Passed != "":
		text = fmt.Sprintf("Plimsoll passes over %s: %s.", e.pod, others.Passed)
	case own != nil && own.Place < others.Place && !d.choice.Deleted:
		text = fmt.Sprintf("Plimsoll ranks %s first: %s.", d.pod, why.Difference(own, others))
	case d.choice.Deleted:
		text = "Deleted pods held the missing amount: Plimsoll ends the largest of them first."
	}
	switch d.choice.Kubelet {
	case "":
	case e.pod:
		text += " A kubelet evicts it by the same measurements."
	default:
		text += fmt.Sprintf(" A kubelet would evict %s by the same measurements.", d.choice.Kubelet)
	}
	return text
}
