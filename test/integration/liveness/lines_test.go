package liveness

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// once checks that a line does not repeat the reason of the previous one.
func (m *monitor) once(d *agent.Decision) {
	kind, text := string(d.Decision)+" "+d.Threshold, d.Threshold+" "+d.LimitedBy+" "+ends(d)
	switch d.Decision {
	case agent.Ineffective: // the first line of a limit
		kind = string(agent.Limited) + " " + d.Threshold
	case agent.NoneHelps: // each or together, without the amounts
		text = d.Threshold + " " + fmt.Sprint(strings.Contains(d.Reason, " together: "))
	case agent.Pending:
		kind += " " + reasonIn(d.Reason)
		text = d.Threshold
	case agent.Failed:
		if len(d.Failed) > 0 {
			return
		}
		text = d.Threshold
	}
	if m.lines[kind] == text {
		m.fault("logged twice: %s %s", d.Decision, d.Reason)
	}
	m.lines[kind] = text
}

var (
	durations = regexp.MustCompile(`\bfor ([0-9hms.]+)`)
	numbers   = regexp.MustCompile(`\d+ (evictions|pods)`)
)

// ends returns the reason without action, with the end of the limit instead of the remaining
// time. So two lines about one limit are equal, and lines about two limits differ.
func ends(d *agent.Decision) string {
	text := durations.ReplaceAllStringFunc(numbers.ReplaceAllString(d.Reason, "$1"), func(found string) string {
		left, err := time.ParseDuration(strings.TrimPrefix(found, "for "))
		if err != nil {
			return found
		}
		return "until " + d.Time.Add(left).Round(time.Millisecond).String()
	})
	return text
}

// blocks returns the reasons without action for other thresholds.
func blocks(o *agent.Outcome) (all []string) {
	for i := range o.Passed {
		p := &o.Passed[i]
		all = append(all, fmt.Sprintf("%s: %s%s%v%v", p.Verdict.Target, p.Blocked, p.LimitReason(), p.Collecting, p.Failed))
	}
	return all
}

// reasonIn returns the reason in a sentence, without its figures.
func reasonIn(why string) string {
	_, rest, _ := strings.Cut(why, ": ")
	reason, _, _ := strings.Cut(rest, ", available")
	return reason
}
