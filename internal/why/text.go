package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/ranking"
)

// Text returns an explanation for people.
func (x *Explanation) Text() string {
	if x.Standing != nil {
		return x.Standing.text(x.Node)
	}
	r := x.Eviction
	var b strings.Builder
	fmt.Fprintf(&b, headline(r)+"\n\n", r.Pod, x.Node)
	for _, line := range append([][2]string{{"Time", r.Time.UTC().Format(time.RFC3339) + CheckText(r)}, {"UID", r.UID}}, Facts(r)...) {
		if line[1] != "" {
			fmt.Fprintf(&b, "%-9s %s\n", line[0]+":", line[1])
		}
	}
	x.writeRanking(&b)
	x.writeAdvice(&b)
	return b.String()
}

// Facts returns the facts about an eviction, with their names. Unknown ones are empty.
func Facts(r *decisionlog.Record) [][2]string {
	return [][2]string{{"Kind", kindText(r)}, {"Cause", causeText(r)}, {"Status", statusText(r)}, {"Failed", failedText(r)}, {"Kubelet", kubeletText(r)}, {"Result", resultText(r)}}
}

// headline returns what happened, with verbs for the pod and the node.
func headline(r *decisionlog.Record) string {
	_, last, later := strings.Cut(r.End, "; ")
	switch {
	case r.End == evictionlog.Withdrawn:
		return "Pod %s was requested to end on node %s, and was not evicted: the request was withdrawn."
	case strings.HasPrefix(r.End, evictionlog.NotEnded), later && strings.HasPrefix(last, evictionlog.NotEnded):
		return "Pod %s was requested to end on node %s, and had not ended when the wait for it was over."
	case r.Grace != nil && (r.End == "" || strings.HasPrefix(r.End, evictionlog.Escalated) && !later):
		return "The soft eviction of pod %s from node %s began. Its end is not recorded."
	}
	return "Pod %s was evicted from node %s."
}

// CheckText names the check that decided, behind its time.
func CheckText(r *decisionlog.Record) string {
	if r.Check == "" {
		return ""
	}
	return ", by " + map[bool]string{true: "an", false: "a"}[r.Check == "early"] + " " + r.Check + " check"
}

// kindText describes how the pod ended.
func kindText(r *decisionlog.Record) string {
	var parts []string
	if r.Grace != nil {
		parts = append(parts, fmt.Sprintf("soft eviction with a grace period of %d s", *r.Grace))
	} else {
		parts = append(parts, "hard eviction")
	}
	if r.Processes > 0 {
		parts = append(parts, fmt.Sprintf("processes that got a signal: %d", r.Processes))
	}
	if r.ExitTime != nil && !r.ProcessesRemain {
		parts = append(parts, fmt.Sprintf("the last process exited after %s", millis(*r.ExitTime)))
	}
	return strings.Join(parts, ", ")
}

// statusText is the pod's status, and whether the API server had accepted it when the eviction was recorded.
func statusText(r *decisionlog.Record) string {
	if r.Status != decisionlog.Pending {
		return r.Message
	}
	return strings.TrimSpace(r.Message) + " The API server had not accepted it when this was recorded. Without it, a kubelet starts the pod again."
}

func millis(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
}

// causeText has the threshold and the observation.
func causeText(r *decisionlog.Record) string {
	cause := evictionlog.Cause(r)
	s, err := signals.Parse(cause)
	switch {
	case isLimit(cause): // the signal and the threshold, if any, are those of another decision
		return "the local-storage limit " + cause + " of the pod. Usage of other pods does not matter"
	case err != nil: // of a later version
		return cause + " " + r.Threshold
	}
	text, unit := r.Threshold, s.Definition().Unit
	if r.Available != nil && r.Capacity != nil {
		text += fmt.Sprintf(": available %s of %s", amount(*r.Available, unit), amount(*r.Capacity, unit))
	}
	if r.Rate != nil && *r.Rate > 0 {
		text += fmt.Sprintf(", decreasing by %s per second", amount(*r.Rate, unit))
	}
	if r.TimeToExhaustion != nil {
		text += ", exhausted in " + millis(*r.TimeToExhaustion)
	}
	return text
}

// isLimit reports whether a cause is a local-storage limit of a pod.
func isLimit(cause string) bool { return strings.HasSuffix(cause, ".limit") }

func failedText(r *decisionlog.Record) string {
	var parts []string
	for _, f := range r.Failed {
		parts = append(parts, f.Pod+": "+f.Reason)
	}
	return strings.Join(parts, "; ")
}

// kubeletText has the kubelet's choice for the same threshold.
func kubeletText(r *decisionlog.Record) string {
	switch {
	case r.Choice == nil || len(r.Choice.Places) == 0:
		return ""
	case r.Choice.Kubelet == r.Pod:
		return "would have evicted the same pod"
	case r.Choice.Kubelet == "":
		return "would have evicted no pod"
	}
	return "would have evicted " + r.Choice.Kubelet
}

// resultText has what the eviction freed.
func resultText(r *decisionlog.Record) string {
	var parts []string
	if s, err := signals.Parse(evictionlog.Cause(r)); err == nil && r.FreedBytes != nil {
		parts = append(parts, amount(*r.FreedBytes, s.Definition().Unit)+" more available")
	}
	if r.End != "" {
		parts = append(parts, r.End)
	}
	return strings.Join(parts, ", ")
}

// writeRanking writes the recorded part of the ranking.
func (x *Explanation) writeRanking(b *strings.Builder) {
	c := x.Eviction.Choice
	if c == nil || len(c.Places) == 0 {
		return
	}
	fmt.Fprintf(b, "\nRanking of %d pods at that time, the first to evict at the top:\n", c.Pods)
	width := 0
	for i := range c.Places {
		width = max(width, len(c.Places[i].Pod))
	}
	for i := range c.Places {
		p := &c.Places[i]
		mark := " "
		if p.UID == x.Eviction.UID {
			mark = "*"
		}
		fmt.Fprintf(b, "%s %4d  %-*s  %s\n", mark, p.Place, width, p.Pod, PlaceText(p))
	}
	for _, sentence := range x.Reasons() {
		b.WriteString(sentence + "\n")
	}
}

// Reasons returns why the ranking did not decide, or why the evicted pod is before the next one, as far as that is
// recorded.
func (x *Explanation) Reasons() (sentences []string) {
	if c := x.Eviction.Choice; c != nil && c.Deleted {
		sentences = append(sentences, "Deleted pods held the missing amount: the largest of them ends first.")
	}
	if x.Next != "" {
		sentences = append(sentences, fmt.Sprintf("Not %s instead: %s.", x.Next, x.WhyNotNext))
	}
	return sentences
}

// PlaceText describes the place of a pod by its figures.
func PlaceText(p *decisionlog.Place) string {
	k := p.Key
	k.Protection = signals.Unprotected // a reason to be passed over, which follows
	text := k.Reason()
	if unit := unitOf(p.Order); p.Order != ranking.ByPIDs {
		text += ", frees " + amount(p.Frees, unit)
	}
	if p.Open != "" && p.Open != p.Incomplete {
		text += ", may free any amount (" + p.Open + ")"
	}
	if p.Passed != "" {
		text += ", passed over: " + p.Passed
	}
	return text
}

// writeAdvice writes what the owner of the pod can change.
func (x *Explanation) writeAdvice(b *strings.Builder) {
	r := x.Eviction
	s, err := signals.Parse(evictionlog.Cause(r))
	switch {
	case isLimit(evictionlog.Cause(r)):
		b.WriteString("\nTo avoid it, raise the limit, or let the pod store less.\n")
	case err != nil || r.Choice == nil || len(r.Choice.Places) == 0:
		b.WriteString("\nThe ranking is not recorded.\n")
	case r.Choice.Deleted:
		b.WriteString("\nIt was being deleted already. Its request, usage and priority did not decide.\n")
	case r.Choice.Limited:
		b.WriteString("\nA pod before it was passed over for a limit on evictions. While the limit lasts, a later pod is evicted only if it exceeds\n" +
			"its request and alone holds the missing amount, as this one did. Otherwise another such pod is evicted, or none.\n")
	case x.Next == "":
		b.WriteString("\nNo other pod could have been evicted: no request, usage or priority would have saved this one.\n")
	case len(x.Changes) == 0:
		fmt.Fprintf(b, "\nNo request, usage or priority of this pod alone would have saved it: %s.\n", x.WhyNotNext)
	default:
		fmt.Fprintf(b, "\nEach of these alone would have saved it. %s would have been evicted instead:\n", x.Next)
		for _, c := range x.Changes {
			fmt.Fprintf(b, "  - %s\n", changeText(c, r, s.Definition()))
		}
	}
}

// resourceNames are the names of resources in texts.
var resourceNames = map[signals.Resource]string{
	signals.Memory: "memory", signals.EphemeralStorage: "ephemeral storage", signals.InodeCount: "inodes", signals.PIDCount: "processes",
}

func changeText(c Change, r *decisionlog.Record, d signals.Definition) string {
	name := resourceNames[d.Resource]
	switch c.What {
	case Request:
		return fmt.Sprintf("a request of at least %s of %s; it was %s", amount(c.To, d.Unit), name, amount(c.From, d.Unit))
	case Priority:
		return fmt.Sprintf("a priority of at least %d; it was %d", c.To, c.From)
	}
	text := fmt.Sprintf("a usage of at most %s; it was %s", usageText(c.To, name, d.Unit), usageText(c.From, name, d.Unit))
	if evicted, _ := r.Evicted(); c.To > 0 && c.To >= int64(evicted.Request) {
		text += limitTexts[d.Resource]
	}
	return text
}

// usageText names the resource of bytes; other units name it themselves.
func usageText(n int64, name string, unit signals.Unit) string {
	text := amount(n, unit)
	if unit == signals.UnitBytes {
		text += " of " + name
	}
	return text
}

// limitTexts describe the limits that bound a usage. Processes and inodes have none in a pod's spec.
var limitTexts = map[signals.Resource]string{
	signals.Memory:           ". A limit of that amount bounds it: beyond, the kernel's OOM killer ends processes of this pod alone",
	signals.EphemeralStorage: ". A limit of that amount bounds it: beyond, this pod is evicted, whatever the node has",
}

// Newest sorts evictions, the latest first. Those of a time in the future, which a wrong clock or a stolen token
// wrote, are the last ones.
func Newest(all []Explanation, now time.Time) {
	slices.SortStableFunc(all, func(a, b Explanation) int {
		x, y := a.Eviction.Time, b.Eviction.Time
		if ahead := x.Sub(now) > evictionlog.MaxAhead; ahead != (y.Sub(now) > evictionlog.MaxAhead) {
			if ahead {
				return 1
			}
			return -1
		}
		return y.Compare(x)
	})
}
