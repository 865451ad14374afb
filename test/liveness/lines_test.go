package liveness

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// once holds a line against the one before: the same reason is not repeated.
func (m *monitor) once(d *agent.Decision) {
	kind, text := string(d.Decision)+" "+d.Threshold, d.Threshold+" "+d.Held+" "+ends(d)
	switch d.Decision {
	case agent.Futile: // the first line of a hold
		kind = string(agent.Held) + " " + d.Threshold
	case agent.Waits:
		kind += " " + reasonIn(d.Why)
		text = d.Threshold
	case agent.Failed:
		if len(d.Failed) > 0 {
			return
		}
		text = d.Threshold
	}
	if m.lines[kind] == text {
		m.fault("told twice: %s %s", d.Decision, d.Why)
	}
	m.lines[kind] = text
}

var (
	durations = regexp.MustCompile(`\bfor ([0-9hms.]+)`)
	numbers   = regexp.MustCompile(`\d+ (evictions|pods)`)
)

// ends is why nothing is done, with the time until which, not how long that is: so two
// lines about one hold are equal, and two holds are told from each other.
func ends(d *agent.Decision) string {
	text := durations.ReplaceAllStringFunc(numbers.ReplaceAllString(d.Why, "$1"), func(found string) string {
		left, err := time.ParseDuration(strings.TrimPrefix(found, "for "))
		if err != nil {
			return found
		}
		return "until " + d.Time.Add(left).Round(time.Millisecond).String()
	})
	return text
}

// blocks are why nothing was done for other thresholds.
func blocks(o *agent.Outcome) (all []string) {
	for i := range o.Passed {
		p := &o.Passed[i]
		all = append(all, fmt.Sprintf("%s: %s%s%v%v", p.Verdict.Target, p.StoodBy, p.WhyHeld(), p.Reclaiming, p.Failed))
	}
	return all
}

// reasonIn is the reason of a sentence, without its figures.
func reasonIn(why string) string {
	_, rest, _ := strings.Cut(why, ": ")
	reason, _, _ := strings.Cut(rest, ", available")
	return reason
}
